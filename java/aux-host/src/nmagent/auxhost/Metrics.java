package nmagent.auxhost;

import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.TreeMap;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Numbers that services register with Hadoop's metrics, by {@code SOURCE.NAME}. */
final class Metrics {
  private static final int SERIES_MAX = 2_000;

  private Metrics() { }

  static Map<String, Double> read() {
    Map<String, Double> series = new TreeMap<>();
    MBeanServer server = ManagementFactory.getPlatformMBeanServer();
    try {
      for (ObjectName bean : server.queryNames(new ObjectName("Hadoop:*"), null)) {
        String source = bean.getKeyProperty("name");
        if (source != null && !source.startsWith("MetricsSystem")) {
          add(series, server, bean, source);
        }
      }
    } catch (Exception unreadable) {
      System.err.println("WARN metrics of services cannot be read: " + unreadable);
    }
    return series;
  }

  private static void add(Map<String, Double> series, MBeanServer server, ObjectName bean,
      String source) throws Exception {
    for (MBeanAttributeInfo attribute : server.getMBeanInfo(bean).getAttributes()) {
      if (series.size() >= SERIES_MAX) {
        return;
      }
      Object value = server.getAttribute(bean, attribute.getName());
      if (value instanceof Number) {
        series.put(source + "." + attribute.getName(), ((Number) value).doubleValue());
      }
    }
  }
}
