import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.yarn.api.records.LocalResource;
import org.apache.hadoop.yarn.api.records.LocalResourceType;
import org.apache.hadoop.yarn.api.records.LocalResourceVisibility;
import org.apache.hadoop.yarn.api.records.URL;
import org.apache.hadoop.yarn.util.FSDownload;

/**
 * Localizes resources as a NodeManager does.
 *
 * <p>Arguments: a folder, and triples of a type ({@code ARCHIVE}, {@code FILE}, or {@code PATTERN=EXPRESSION}), a source
 * and a number. The resource with the number N comes into the folder N of the first one. Prints a line for each:
 * {@code N ok} or {@code N} with the exception.
 */
public final class Localize {
    private Localize() {
    }

    public static void main(String[] arguments) throws Exception {
        Configuration conf = new Configuration();
        FileContext files = FileContext.getLocalFSFileContext(conf);
        files.mkdir(new Path(arguments[0]), FsPermission.getDirDefault(), true);
        for (int at = 1; at < arguments.length; at += 3) {
            String[] type = arguments[at].split("=", 2);
            File source = new File(arguments[at + 1]);
            LocalResource resource = LocalResource.newInstance(
                URL.fromPath(files.makeQualified(new Path(arguments[at + 1]))), LocalResourceType.valueOf(type[0]), LocalResourceVisibility.PRIVATE,
                source.length(), source.lastModified());
            if (type.length > 1) {
                resource.setPattern(type[1]);
            }
            String number = arguments[at + 2];
            Path target = new Path(arguments[0], number);
            String result;
            try {
                new FSDownload(files, null, conf, target, resource).call();
                result = "ok";
            } catch (Exception | Error error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                result = cause.toString().replace('\n', ' ');
            }
            System.out.println(number + " " + result);
        }
    }
}
