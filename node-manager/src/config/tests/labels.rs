//! Claims about the providers of labels and attributes.

use std::time::Duration;

use super::*;

const SCRIPT: [(&str, &str); 2] = [
    ("node-labels.provider", "Script"),
    ("node-labels.provider.script.path", "/bin/labels"),
];

#[test]
fn a_node_says_nothing_of_itself_unless_a_provider_is_set() {
    let configured = ("node-labels.provider.configured-node-partition", "gpu");
    assert_eq!(
        config(&[configured]).node_labels,
        NodeLabelsConfig::default()
    );
}

#[test]
fn a_script_has_hadoops_times_and_its_own_arguments() {
    let opts = ("node-labels.provider.script.opts", "-x, y");
    let labels = config(&[SCRIPT[0], SCRIPT[1], opts])
        .node_labels
        .labels
        .unwrap();
    let ProviderSource::Script(script) = labels.source else {
        panic!("{labels:?}");
    };
    assert_eq!(script.path, PathBuf::from("/bin/labels"));
    assert_eq!(script.arguments, ["-x", "y"]);
    assert_eq!(script.timeout, Duration::from_secs(1200));
    assert_eq!(labels.fetch_interval, Some(Duration::from_secs(600)));
    assert_eq!(labels.resync_interval, Duration::from_secs(120));
    let once = ("node-labels.provider.fetch-interval-ms", "-1");
    let labels = config(&[SCRIPT[0], SCRIPT[1], once]).node_labels.labels;
    assert_eq!(labels.unwrap().fetch_interval, None);
}

#[test]
fn what_no_provider_can_use_is_refused() {
    for (settings, expected) in [
        (
            vec![("node-labels.provider", "org.example.Labels")],
            "a Java class",
        ),
        (vec![SCRIPT[0]], "script.path is not set"),
        (
            vec![
                ("node-labels.provider", "config"),
                ("node-labels.provider.configured-node-partition", "a b"),
            ],
            "must be 1 to 255 characters",
        ),
        (
            vec![
                ("node-attributes.provider", "config"),
                (
                    "node-attributes.provider.configured-node-attributes",
                    "a,INT,1",
                ),
            ],
            "the type of attribute",
        ),
        (
            vec![
                SCRIPT[0],
                SCRIPT[1],
                ("node-labels.provider.fetch-interval-ms", "0"),
            ],
            "-1 to fetch once",
        ),
    ] {
        let messages = problems(&settings);
        assert!(
            messages.iter().any(|it| it.contains(expected)),
            "{messages:?}"
        );
    }
}
