/** Prints the release of the Hadoop on the class path. */
public final class HadoopVersion {
    private HadoopVersion() {
    }

    public static void main(String[] arguments) {
        System.out.println(org.apache.hadoop.util.VersionInfo.getVersion());
    }
}
