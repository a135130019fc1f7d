//! The record of `nm-agent adopt`, which says what root starts.

use std::collections::BTreeMap;

use adopt::{Adoption, JavaProcess, Record, Stage, StartedBy, Step, shown};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "adopt_record",
    bytes_max: 4 * 1024,
    memory: Memory {
        base: 64 * 1024,
        per_byte: 256,
    },
    run,
    seeds,
};

fn run(input: &[u8]) {
    let record = match Record::from_bytes(input) {
        Ok(record) => record,
        Err(error) => {
            // The text may quote the file.
            let text = error.to_string();
            assert!(!text.contains(char::is_control), "{text:?}");
            return;
        }
    };
    let adoption = &record.adoption;
    for path in [&adoption.conf, &adoption.yarn, &adoption.profile] {
        assert!(path.is_absolute(), "{}", path.display());
    }
    assert!(adoption.emptied_logs.iter().all(|path| path.is_absolute()));
    if let StartedBy::Unit(name) = &adoption.started_by {
        // The name stands among the arguments of a command.
        assert!(name.ends_with(".service") && !name.starts_with('-'));
        assert!(!name.contains(['/', ' ', '\n']), "{name}");
        assert_eq!(&shown(name), name);
    }
    let bytes = record.to_bytes().expect("paths are UTF-8");
    let again = Record::from_bytes(&bytes).expect("it was written");
    assert_eq!(again, record);
}

fn seeds() -> Vec<Vec<u8>> {
    let adoption = Adoption {
        conf: "/etc/hadoop/conf".into(),
        user: 1000,
        yarn: "/opt/hadoop/bin/yarn".into(),
        program: "/usr/bin/nm-agent".into(),
        profile: "/usr/lib/nm-agent/shellprofile.d/nm-agent.sh".into(),
        makes_profile_folder: true,
        started_by: StartedBy::Unit("nodes@1.service".to_owned()),
        variables: BTreeMap::from([("HADOOP_PID_DIR".to_owned(), "/run".to_owned())]),
        java: Some(JavaProcess {
            pid: 4711,
            start_time: 17,
        }),
        site: "<configuration/>\n".to_owned(),
        agent_local_dirs: vec!["/data/nm-agent".into()],
        emptied_logs: vec!["/logs".into()],
        port: 8041,
    };
    let by_daemon = Adoption {
        started_by: StartedBy::Daemon,
        java: None,
        ..adoption.clone()
    };
    [
        Record::new(Stage::Going(Step::StopJava), adoption),
        Record::new(Stage::Done, by_daemon),
    ]
    .into_iter()
    .map(|record| record.to_bytes().expect("paths are UTF-8"))
    .collect()
}
