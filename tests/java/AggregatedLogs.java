import java.io.DataInputStream;
import java.io.EOFException;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.yarn.api.records.ApplicationAccessType;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.logaggregation.AggregatedLogFormat;

/**
 * Writes an aggregated log of the containers in a log directory, or prints one, with Hadoop's own classes.
 *
 * <p>{@code write FILE LOG_DIR OWNER VIEW_ACL CONTAINER…}, {@code read FILE}
 */
public final class AggregatedLogs {
    private AggregatedLogs() {
    }

    public static void main(String[] arguments) throws Exception {
        Configuration conf = new Configuration();
        conf.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem");
        conf.setInt("tfile.io.chunk.size", 64 * 1024);
        Path file = new Path(arguments[1]);
        if (arguments[0].equals("write")) {
            write(conf, file, Arrays.copyOfRange(arguments, 2, arguments.length));
        } else {
            read(conf, file);
        }
    }

    private static void write(Configuration conf, Path file, String[] arguments) throws Exception {
        Map<ApplicationAccessType, String> acls = new EnumMap<>(ApplicationAccessType.class);
        acls.put(ApplicationAccessType.VIEW_APP, arguments[2]);
        try (AggregatedLogFormat.LogWriter writer = new AggregatedLogFormat.LogWriter()) {
            writer.initialize(conf, file, UserGroupInformation.getCurrentUser());
            writer.writeApplicationACLs(acls);
            writer.writeApplicationOwner(arguments[1]);
            for (int i = 3; i < arguments.length; i++) {
                ContainerId container = ContainerId.fromString(arguments[i]);
                writer.append(new AggregatedLogFormat.LogKey(container),
                        new AggregatedLogFormat.LogValue(
                                Collections.singletonList(arguments[0]), container, arguments[1]));
            }
        }
    }

    private static void read(Configuration conf, Path file) throws Exception {
        try (AggregatedLogFormat.LogReader reader = new AggregatedLogFormat.LogReader(conf, file)) {
            System.out.println("owner " + reader.getApplicationOwner());
            System.out.println("acls " + reader.getApplicationAcls());
            AggregatedLogFormat.LogKey key = new AggregatedLogFormat.LogKey();
            for (DataInputStream value = reader.next(key); value != null; value = reader.next(key)) {
                System.out.println(key);
                boolean hasMore = true;
                while (hasMore) {
                    hasMore = printFile(value);
                }
                key = new AggregatedLogFormat.LogKey();
            }
        }
    }

    /** Prints name, length and the sum of the bytes of the next file. */
    private static boolean printFile(DataInputStream value) throws Exception {
        String name;
        try {
            name = value.readUTF();
        } catch (EOFException end) {
            return false;
        }
        long length = Long.parseLong(value.readUTF());
        long sum = 0;
        for (long at = 0; at < length; at++) {
            sum += value.readUnsignedByte() * (at % 251 + 1);
        }
        System.out.println(name + " " + length + " " + sum);
        return true;
    }
}
