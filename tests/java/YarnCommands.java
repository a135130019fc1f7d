import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;
import org.apache.hadoop.yarn.client.cli.ApplicationCLI;
import org.apache.hadoop.yarn.client.cli.LogsCLI;
import org.apache.hadoop.yarn.client.cli.NodeCLI;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.webapp.util.WebServiceClient;

/**
 * Runs several commands of Hadoop's `yarn` in one JVM, which takes longer to start than they do. A
 * command is its words, as after `yarn`; `--` stands between two. Of each it prints a line
 * `== STATUS` and then what the command printed.
 */
public final class YarnCommands {
    private YarnCommands() {
    }

    public static void main(String[] arguments) throws Exception {
        List<String> command = new ArrayList<>();
        for (String word : arguments) {
            if (word.equals("--")) {
                run(command);
                command.clear();
            } else {
                command.add(word);
            }
        }
        run(command);
    }

    private static void run(List<String> command) throws Exception {
        PrintStream real = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream out = new PrintStream(printed, true, "UTF-8");
        System.setOut(out);
        int status;
        try {
            status = status(command, out);
        } finally {
            System.setOut(real);
        }
        real.println("== " + status);
        real.println(printed.toString("UTF-8"));
    }

    private static int status(List<String> command, PrintStream out) throws Exception {
        Configuration conf = new YarnConfiguration();
        List<String> rest = command.subList(1, command.size());
        switch (command.get(0)) {
            case "node":
                NodeCLI node = new NodeCLI();
                node.setSysOutPrintStream(out);
                node.setSysErrPrintStream(out);
                return run(node, conf, rest);
            case "logs":
                // As its own `main` does.
                WebServiceClient.initialize(conf);
                try {
                    return run(new LogsCLI(), conf, rest);
                } finally {
                    WebServiceClient.destroy();
                }
            case "daemonlog":
                // Its tool is for its own `main` alone, which ends the JVM.
                Constructor<?> tool = Class.forName("org.apache.hadoop.log.LogLevel$CLI")
                    .getDeclaredConstructor(Configuration.class);
                tool.setAccessible(true);
                return ((Tool) tool.newInstance(conf)).run(rest.toArray(new String[0]));
            default:
                // `application`, `applicationattempt` and `container` are words of the tool itself.
                ApplicationCLI application = new ApplicationCLI();
                application.setSysOutPrintStream(out);
                application.setSysErrPrintStream(out);
                return run(application, conf, command);
        }
    }

    private static int run(Tool tool, Configuration conf, List<String> words) throws Exception {
        tool.setConf(conf);
        return ToolRunner.run(tool, words.toArray(new String[0]));
    }
}
