import java.lang.management.ManagementFactory;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.DynamicMBean;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanInfo;
import javax.management.ObjectName;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * A virtual machine with the beans of Hadoop's domain that a node shows at /jmx, for exporters that
 * read a machine from inside. The one argument is the address of /jmx; it is read again for each
 * bean that is asked for.
 */
public final class BeansOverJmx {
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    private BeansOverJmx() {
    }

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        for (JsonNode bean : read(address, "Hadoop:*")) {
            String name = bean.get("name").asText();
            ManagementFactory.getPlatformMBeanServer()
                .registerMBean(new Bean(address, name), new ObjectName(name));
        }
        System.out.println("registered");
        Thread.currentThread().join();
    }

    private static JsonNode read(String address, String query) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(address + "?qry=" + query)).build();
        String body = CLIENT.send(request, HttpResponse.BodyHandlers.ofString()).body();
        return new ObjectMapper().readTree(body).get("beans");
    }

    private static final class Bean implements DynamicMBean {
        private final String address;
        private final String name;

        Bean(String address, String name) {
            this.address = address;
            this.name = name;
        }

        private JsonNode values() {
            try {
                return read(address, name).get(0);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        private static Object value(JsonNode value) {
            if (value == null || value.isNull()) {
                return null;
            }
            if (value.isIntegralNumber()) {
                return value.asLong();
            }
            return value.isNumber() ? (Object) value.asDouble() : value.asText();
        }

        @Override
        public Object getAttribute(String attribute) throws AttributeNotFoundException {
            return value(values().get(attribute));
        }

        @Override
        public AttributeList getAttributes(String[] attributes) {
            JsonNode values = values();
            AttributeList list = new AttributeList();
            for (String attribute : attributes) {
                list.add(new Attribute(attribute, value(values.get(attribute))));
            }
            return list;
        }

        @Override
        public MBeanInfo getMBeanInfo() {
            List<MBeanAttributeInfo> attributes = new ArrayList<>();
            JsonNode values = values();
            for (Iterator<String> names = values.fieldNames(); names.hasNext();) {
                String attribute = names.next();
                String type = values.get(attribute).isIntegralNumber() ? "java.lang.Long"
                    : values.get(attribute).isNumber() ? "java.lang.Double" : "java.lang.String";
                attributes.add(
                    new MBeanAttributeInfo(attribute, type, attribute, true, false, false));
            }
            return new MBeanInfo(name, name, attributes.toArray(new MBeanAttributeInfo[0]), null,
                null, null);
        }

        @Override
        public void setAttribute(Attribute attribute) {
            throw new UnsupportedOperationException();
        }

        @Override
        public AttributeList setAttributes(AttributeList attributes) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Object invoke(String action, Object[] parameters, String[] signature) {
            throw new UnsupportedOperationException();
        }
    }
}
