import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/**
 * Prints the host names that a NodeManager registers with. Each line of the standard input is a
 * machine: file with its /etc/hosts, its name, yarn.nodemanager.address and bind-host, with tabs
 * between them. Must run in namespaces of its own for mounts and the machine's name.
 */
public final class NodeName {
    private NodeName() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader machines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = machines.readLine()) != null) {
            String[] machine = line.split("\t", -1);
            // Another file would be another mount.
            try (FileOutputStream hosts = new FileOutputStream("/etc/hosts")) {
                Files.copy(Path.of(machine[0]), hosts);
            }
            new ProcessBuilder("hostname", machine[1]).inheritIO().start().waitFor();
            // Java keeps its own machine's address for five seconds.
            Field own = InetAddress.class.getDeclaredField("cachedLocalHost");
            own.setAccessible(true);
            own.set(null, null);
            System.out.println(name(machine[2], machine[3]));
        }
    }

    /** The steps by which ContainerManagerImpl.serviceStart finds the node's id. */
    private static String name(String address, String bindHost) {
        Configuration conf = new Configuration(false);
        conf.set(YarnConfiguration.NM_ADDRESS, address);
        if (!bindHost.isEmpty()) {
            conf.set(YarnConfiguration.NM_BIND_HOST, bindHost);
        }
        InetSocketAddress connect = NetUtils.getConnectAddress(conf.getSocketAddr(
            YarnConfiguration.NM_BIND_HOST, YarnConfiguration.NM_ADDRESS,
            YarnConfiguration.DEFAULT_NM_ADDRESS, YarnConfiguration.DEFAULT_NM_PORT));
        if (!bindHost.isEmpty()) {
            connect = NetUtils.getConnectAddress(
                new InetSocketAddress(address.split(":")[0], connect.getPort()));
        }
        return connect.getAddress().getCanonicalHostName();
    }
}
