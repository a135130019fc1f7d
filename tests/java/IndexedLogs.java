import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.yarn.api.records.ApplicationAccessType;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.logaggregation.AggregatedLogFormat;
import org.apache.hadoop.yarn.logaggregation.filecontroller.LogAggregationFileControllerContext;
import org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController;
import org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController.IndexedFileLogMeta;
import org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController.IndexedLogsMeta;
import org.apache.hadoop.yarn.logaggregation.filecontroller.ifile.LogAggregationIndexedFileController.IndexedPerAggregationLogMeta;

/**
 * Writes an indexed log of the containers in a log directory with Hadoop's own classes, and prints its index.
 *
 * <p>{@code write FILE LOG_DIR OWNER VIEW_ACL NODE CONTAINER…}, {@code read FILE APPLICATION}
 */
public final class IndexedLogs {
    private IndexedLogs() {
    }

    public static void main(String[] arguments) throws Exception {
        Configuration conf = new Configuration();
        conf.set("yarn.nodemanager.remote-app-log-dir", new Path(arguments[1]).getParent().toString());
        LogAggregationIndexedFileController controller = new LogAggregationIndexedFileController();
        controller.initialize(conf, "IndexedFormat");
        Path file = new Path(arguments[1]);
        ApplicationId application;
        if (arguments[0].equals("write")) {
            String[] rest = Arrays.copyOfRange(arguments, 2, arguments.length);
            application = ContainerId.fromString(rest[4]).getApplicationAttemptId().getApplicationId();
            write(controller, file, application, rest);
        } else {
            application = ApplicationId.fromString(arguments[2]);
        }
        print(controller.loadIndexedLogsMeta(file, -1, application));
    }

    private static void write(LogAggregationIndexedFileController controller, Path file, ApplicationId application,
            String[] arguments) throws Exception {
        Map<ApplicationAccessType, String> acls = new HashMap<>();
        acls.put(ApplicationAccessType.VIEW_APP, arguments[2]);
        LogAggregationFileControllerContext context = new LogAggregationFileControllerContext(
                file, file, false, 0, application, acls, NodeId.fromString(arguments[3]),
                UserGroupInformation.createRemoteUser(arguments[1]));
        controller.initializeWriter(context);
        for (int i = 4; i < arguments.length; i++) {
            ContainerId container = ContainerId.fromString(arguments[i]);
            controller.write(new AggregatedLogFormat.LogKey(container), new AggregatedLogFormat.LogValue(
                    Collections.singletonList(arguments[0]), container, System.getProperty("user.name")));
        }
        controller.postWrite(context);
        controller.closeWriter();
    }

    private static void print(IndexedLogsMeta meta) {
        System.out.println(meta.getVersion() + " " + meta.getUser() + " " + meta.getNodeId() + " "
                + meta.getCompressName() + " " + meta.getAcls());
        for (IndexedPerAggregationLogMeta upload : meta.getLogMetas()) {
            System.out.println(upload.getUploadTimeStamp() + " " + upload.getRemoteNodeFile());
            for (Map.Entry<String, List<IndexedFileLogMeta>> container : upload.getLogMetas().entrySet()) {
                for (IndexedFileLogMeta log : container.getValue()) {
                    System.out.println(container.getKey() + " " + log.getContainerId() + " " + log.getFileName() + " "
                            + log.getFileSize() + " " + log.getLastModifiedTime());
                }
            }
        }
    }
}
