import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;
import scala.Tuple2;

/**
 * Jobs for a real Spark. Spark's own examples are not among its published artifacts.
 *
 * <p>{@code pi SLICES} estimates Pi from points in a square, and prints it. {@code words PARTITIONS INPUT OUTPUT} counts
 * words, which takes a shuffle, and writes a line {@code WORD COUNT} for each. {@code python PARTITIONS} has the module
 * {@code packed} of the Python environment {@code env} square numbers, and prints their sum.
 */
public final class SparkJobs {
    private static final int POINTS_OF_A_SLICE = 20_000;

    private SparkJobs() {
    }

    public static void main(String[] arguments) {
        SparkConf conf = new SparkConf().setAppName(arguments[0]);
        try (JavaSparkContext spark = new JavaSparkContext(conf)) {
            int parts = Integer.parseInt(arguments[1]);
            if (arguments[0].equals("pi")) {
                System.out.println("Pi is roughly " + pi(spark, parts));
            } else if (arguments[0].equals("python")) {
                System.out.println("Sum of squares: " + squares(spark, parts));
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

    private static void countWords(JavaSparkContext spark, int partitions, String input, String output) {
        spark.textFile(input, partitions)
            .flatMap(line -> Arrays.asList(line.split(" ")).iterator())
            .mapToPair(word -> new Tuple2<>(word, 1L))
            .reduceByKey(Long::sum, partitions)
            .map(counted -> counted._1() + " " + counted._2())
            .saveAsTextFile(output);
    }
}
