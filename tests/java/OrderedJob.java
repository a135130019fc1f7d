import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.io.IntWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapreduce.InputFormat;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.TaskAttemptID;
import org.apache.hadoop.mapreduce.lib.output.NullOutputFormat;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * A MapReduce job whose maps fail, or wait for a file, as ordered. Each map has one record.
 *
 * <p>{@code [-D ordered.PROPERTY=VALUE…] JAR}. Properties: {@code maps} (1), their number; {@code failures} (0), how
 * many attempts of each map end their JVM with status 7; {@code gate}, a local path: a map makes a file of this name
 * with a dot and its attempt appended, and waits until the path itself exists.
 */
public final class OrderedJob extends Configured implements Tool {
    private static final String MAPS = "ordered.maps";
    private static final String FAILURES = "ordered.failures";
    private static final String GATE = "ordered.gate";
    private static final int FAILED = 7;
    private static final long POLL_MS = 50;

    public static void main(String[] arguments) throws Exception {
        System.exit(ToolRunner.run(new OrderedJob(), arguments));
    }

    @Override
    public int run(String[] arguments) throws Exception {
        Job job = Job.getInstance(getConf(), "ordered");
        job.setJar(arguments[0]);
        job.setInputFormatClass(Numbers.class);
        job.setMapperClass(OrderedMapper.class);
        job.setOutputFormatClass(NullOutputFormat.class);
        job.setMapOutputKeyClass(IntWritable.class);
        job.setMapOutputValueClass(NullWritable.class);
        return job.waitForCompletion(true) ? 0 : 1;
    }

    /** Fails or waits, then passes its record on. */
    public static final class OrderedMapper extends Mapper<IntWritable, NullWritable, IntWritable, NullWritable> {
        @Override
        protected void map(IntWritable key, NullWritable value, Context context)
                throws IOException, InterruptedException {
            TaskAttemptID attempt = context.getTaskAttemptID();
            System.out.println("this is " + attempt);
            System.out.flush();
            if (attempt.getId() < context.getConfiguration().getInt(FAILURES, 0)) {
                Runtime.getRuntime().halt(FAILED);
            }
            String gate = context.getConfiguration().get(GATE);
            if (gate != null) {
                Path path = Paths.get(gate);
                Files.createFile(path.resolveSibling(path.getFileName() + "." + attempt));
                while (!Files.exists(path)) {
                    Thread.sleep(POLL_MS);
                }
            }
            context.write(key, value);
        }
    }

    /** One split of one record for each map. */
    public static final class Numbers extends InputFormat<IntWritable, NullWritable> {
        @Override
        public List<InputSplit> getSplits(JobContext context) {
            List<InputSplit> splits = new ArrayList<>();
            for (int number = 0; number < context.getConfiguration().getInt(MAPS, 1); number++) {
                splits.add(new NumberSplit(number));
            }
            return splits;
        }

        @Override
        public RecordReader<IntWritable, NullWritable> createRecordReader(InputSplit split, TaskAttemptContext context) {
            return new NumberReader();
        }
    }

    /** A number. */
    public static final class NumberSplit extends InputSplit implements Writable {
        private int number;

        public NumberSplit() {
        }

        NumberSplit(int number) {
            this.number = number;
        }

        @Override
        public long getLength() {
            return 1;
        }

        @Override
        public String[] getLocations() {
            return new String[0];
        }

        @Override
        public void write(DataOutput out) throws IOException {
            out.writeInt(number);
        }

        @Override
        public void readFields(DataInput in) throws IOException {
            number = in.readInt();
        }
    }

    private static final class NumberReader extends RecordReader<IntWritable, NullWritable> {
        private final IntWritable number = new IntWritable();
        private boolean isRead;

        @Override
        public void initialize(InputSplit split, TaskAttemptContext context) {
            number.set(((NumberSplit) split).number);
        }

        @Override
        public boolean nextKeyValue() {
            boolean isFirst = !isRead;
            isRead = true;
            return isFirst;
        }

        @Override
        public IntWritable getCurrentKey() {
            return number;
        }

        @Override
        public NullWritable getCurrentValue() {
            return NullWritable.get();
        }

        @Override
        public float getProgress() {
            return isRead ? 1 : 0;
        }

        @Override
        public void close() {
        }
    }
}
