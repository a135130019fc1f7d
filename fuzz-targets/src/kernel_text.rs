//! Texts of the kernel that depend on names which containers choose: mounts and control groups.

use cgroup::{Layout, Pressure};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "kernel_text",
    bytes_max: 8 * 1024,
    memory: Memory {
        base: 16 * 1024,
        per_byte: 128,
    },
    run,
    seeds,
};

fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    // The mounts come first, then a line of dashes, then the groups of the process.
    let (mounts, own) = text.split_once("---\n").unwrap_or((&text, "0::/\n"));
    let layout = Layout::parse(mounts, own);
    let _any = layout.version();
    if let Some(pressure) = Pressure::parse(&text) {
        assert!(text.contains("some "), "{pressure:?}");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n---\n0::/user.slice/a\\040b\n",
        "31 23 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
         32 23 0:28 /x /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n---\n\
         5:memory:/a\n4:cpu,cpuacct:/b\n1:name=systemd:/c\n",
        "some avg10=0.00 avg60=1.50 avg300=99.99 total=12345\n\
         full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ];
    texts
        .into_iter()
        .map(|text| text.as_bytes().to_vec())
        .collect()
}
