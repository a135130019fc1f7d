//! The exporter of Hadoop's beans in Python, which reads both nodes in one process and tells them
//! apart by what they say of themselves.
//!
//! No registry has it: `NM_AGENT_HADOOP_EXPORTER` names a folder with its sources, as they are
//! published by `vqcuong/hadoop_exporter`. What it needs comes from the registry of Python.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tests::cluster::STATE_DEADLINE;
use tests::ports::Port;
use tests::process::Process;
use tests::{http, require, wait};

use super::Pair;

const SOURCES: &str = "NM_AGENT_HADOOP_EXPORTER";

/// Makes an environment with what the exporter imports, and returns its Python.
fn python(folder: &Path) -> PathBuf {
    let environment = folder.join("python");
    run(Command::new("python3")
        .args(["-m", "venv"])
        .arg(&environment));
    let python = environment.join("bin/python");
    run(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "requests",
        "prometheus-client",
        "python-consul",
        "pyyaml",
    ]));
    python
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

#[test]
#[ignore = "needs the sources of hadoop_exporter, which no registry has"]
fn two_nodes_are_two_nodes_by_the_real_hadoop_exporter() {
    require!(java, hadoop, python);
    let sources = PathBuf::from(std::env::var_os(SOURCES).expect(SOURCES));
    let pair = Pair::start();
    let python = python(pair.lab.folder());
    let port = Port::reserve().release();
    let [first, second] = pair.pages();
    let mut command = Command::new(python);
    command
        .arg("service.py")
        .args(["-nm", &format!("http://{first}/jmx,http://{second}/jmx")])
        .args(["-addr", "127.0.0.1", "-p", &port.to_string()])
        .current_dir(sources)
        .env("EXPORTER_LOGS_DIR", pair.lab.folder().join("exporter"));
    let _exporter = Process::start("hadoop-exporter", &mut command, pair.lab.folder());
    let url = format!("http://127.0.0.1:{port}/metrics");
    let text = wait::until("samples of both nodes", STATE_DEADLINE, || {
        let text = http::get(&url)?.body;
        let has = |host: &str| text.contains(&format!("\"{host}\""));
        let has_both = super::HOSTS.into_iter().all(has);
        if has_both { Ok(text) } else { Err(text) }
    });
    let samples = text.lines().filter(|line| line.starts_with("hadoop_"));
    let series: Vec<_> = samples
        .map(|line| line.rsplit_once(' ').unwrap().0)
        .collect();
    let distinct: BTreeSet<_> = series.iter().collect();
    println!("{} samples, {} distinct", series.len(), distinct.len());
    assert_eq!(distinct.len(), series.len());
    let of = |host: &str| {
        let label = format!("\"{host}\"");
        series.iter().filter(|it| it.contains(&label)).count()
    };
    let [first, second] = super::HOSTS.map(of);
    assert_eq!(first, second);
    assert_eq!(first + second, series.len());
}
