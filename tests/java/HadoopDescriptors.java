import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.thirdparty.protobuf.DescriptorProtos.FileDescriptorSet;
import org.apache.hadoop.thirdparty.protobuf.Descriptors.FileDescriptor;

/**
 * Writes the descriptors that Hadoop's generated classes carry to standard output, as one FileDescriptorSet. The
 * arguments are the generated outer classes; what their files import comes along.
 */
public final class HadoopDescriptors {
    private HadoopDescriptors() {
    }

    public static void main(String[] outerClasses) throws Exception {
        Map<String, FileDescriptor> files = new LinkedHashMap<>();
        for (String outerClass : outerClasses) {
            add(files, (FileDescriptor) Class.forName(outerClass).getMethod("getDescriptor").invoke(null));
        }
        FileDescriptorSet.Builder set = FileDescriptorSet.newBuilder();
        for (FileDescriptor file : files.values()) {
            set.addFile(file.toProto());
        }
        System.out.write(set.build().toByteArray());
        System.out.flush();
    }

    private static void add(Map<String, FileDescriptor> files, FileDescriptor file) {
        if (files.containsKey(file.getName())) {
            return;
        }
        for (FileDescriptor imported : file.getDependencies()) {
            add(files, imported);
        }
        files.put(file.getName(), file);
    }
}
