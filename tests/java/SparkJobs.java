import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.storage.StorageLevel;
import org.apache.spark.util.LongAccumulator;
import scala.Tuple2;

/**
 * Jobs for a real Spark. Spark's own examples are not among its published artifacts.
 *
 * <p>{@code pi SLICES} estimates Pi from points in a square, and prints it. {@code words PARTITIONS INPUT OUTPUT} counts
 * words, which takes a shuffle, and writes a line {@code WORD COUNT} for each. {@code python PARTITIONS} has the module
 * {@code packed} of the Python environment {@code env} square numbers, and prints their sum. {@code outlived PARTITIONS
 * ROUNDS FOLDER} shuffles numbers and keeps others on disk, then uses both again in each round, once all executors have
 * ended and the file {@code go-ROUND} is in the folder. It prints how often a map ran and a kept partition was computed.
 */
public final class SparkJobs {
    private static final int POINTS_OF_A_SLICE = 20_000;

    private SparkJobs() {
    }

    public static void main(String[] arguments) throws Exception {
        SparkConf conf = new SparkConf().setAppName(arguments[0]);
        try (JavaSparkContext spark = new JavaSparkContext(conf)) {
            int parts = Integer.parseInt(arguments[1]);
            if (arguments[0].equals("pi")) {
                System.out.println("Pi is roughly " + pi(spark, parts));
            } else if (arguments[0].equals("python")) {
                System.out.println("Sum of squares: " + squares(spark, parts));
            } else if (arguments[0].equals("outlived")) {
                System.out.println(outlived(spark, parts, Integer.parseInt(arguments[2]), Paths.get(arguments[3])));
            } else {
                countWords(spark, parts, arguments[2], arguments[3]);
            }
        }
    }

    private static double pi(JavaSparkContext spark, int slices) {
        List<Integer> seeds = new ArrayList<>();
        for (int seed = 0; seed < slices; seed++) {
            seeds.add(seed);
        }
        long inside = spark.parallelize(seeds, slices).map(SparkJobs::pointsInside).reduce(Long::sum);
        return 4.0 * inside / ((long) slices * POINTS_OF_A_SLICE);
    }

    private static long pointsInside(int seed) {
        Random random = new Random(seed);
        long inside = 0;
        for (int point = 0; point < POINTS_OF_A_SLICE; point++) {
            double x = random.nextDouble();
            double y = random.nextDouble();
            if (x * x + y * y <= 1) {
                inside++;
            }
        }
        return inside;
    }

    private static long squares(JavaSparkContext spark, int partitions) {
        List<Integer> numbers = new ArrayList<>();
        for (int number = 1; number <= 100; number++) {
            numbers.add(number);
        }
        return spark.parallelize(numbers, partitions)
            .pipe(Arrays.asList("env/bin/python3", "-m", "packed"))
            .map(Long::parseLong)
            .reduce(Long::sum);
    }

    private static String outlived(JavaSparkContext spark, int partitions, int rounds, Path folder) throws Exception {
        AtomicInteger maps = new AtomicInteger();
        spark.sc().addSparkListener(new SparkListener() {
            @Override
            public void onTaskEnd(SparkListenerTaskEnd end) {
                if (end.taskType().equals("ShuffleMapTask")) {
                    maps.incrementAndGet();
                }
            }
        });
        LongAccumulator computed = spark.sc().longAccumulator("computed");
        List<Integer> numbers = new ArrayList<>();
        for (int number = 0; number < 10_000; number++) {
            numbers.add(number);
        }
        JavaPairRDD<Integer, Long> sums = spark.parallelize(numbers, partitions)
            .mapToPair(number -> new Tuple2<>(number % 97, (long) number))
            .groupByKey(partitions)
            .mapValues(SparkJobs::sum);
        JavaRDD<Integer> kept = spark.parallelize(numbers, partitions)
            .mapPartitions(part -> {
                computed.add(1);
                return part;
            })
            .persist(StorageLevel.DISK_ONLY());
        long first = sums.values().reduce(Long::sum);
        long count = kept.count();
        for (int round = 1; round <= rounds; round++) {
            await(() -> spark.sc().getExecutorMemoryStatus().size() == 1);
            Files.createFile(folder.resolve("alone-" + round));
            Path go = folder.resolve("go-" + round);
            await(() -> Files.exists(go));
            if (sums.values().reduce(Long::sum) != first || kept.count() != count) {
                throw new IllegalStateException("another result in round " + round);
            }
        }
        spark.sc().listenerBus().waitUntilEmpty(60_000);
        return "Maps: " + maps + ", kept: " + computed.value() + ", sum: " + first;
    }

    private static long sum(Iterable<Long> numbers) {
        long sum = 0;
        for (long number : numbers) {
            sum += number;
        }
        return sum;
    }

    private static void await(BooleanSupplier condition) throws InterruptedException {
        while (!condition.getAsBoolean()) {
            Thread.sleep(20);
        }
    }

    private static void countWords(JavaSparkContext spark, int partitions, String input, String output) {
        spark.textFile(input, partitions)
            .flatMap(line -> Arrays.asList(line.split(" ")).iterator())
            .mapToPair(word -> new Tuple2<>(word, 1L))
            .reduceByKey(Long::sum, partitions)
            .map(counted -> counted._1() + " " + counted._2())
            .saveAsTextFile(output);
    }
}
