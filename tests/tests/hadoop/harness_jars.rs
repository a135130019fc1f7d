//! The harness finds or downloads Hadoop's jars and runs Java sources against them.

use std::path::Path;

use tests::{hadoop, java, require};

#[test]
fn a_java_source_runs_with_the_pinned_hadoop() {
    require!(jdk, hadoop);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/HadoopVersion.java");
    let output = java::source_command(&source).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        hadoop::VERSION
    );
}

#[test]
fn a_jar_is_found_by_its_artifact() {
    require!(hadoop);
    assert!(hadoop::jar("hadoop-yarn-applications-distributedshell").is_file());
}
