//! The two levels: agents, ResourceManager and proxies as they ship do what their schedulers and
//! allocators alone say.

use simulate::figures::FIGURES;
use simulate::runner::Results;
use simulate::scenario::Scenario;
use simulate::summary::{RunFigures, summaries};
use simulate::table::{jobs_csv, runs_csv, table};

use crate::{figure, results_of};

/// Every policy that ships, with jobs that evict others' containers.
const ARMS: &str = r#"
    title = "two levels"
    cluster = { nodes = NODES, places = PLACES, resource-manager = "embedded" }
    workload = { jobs = "two", tasks = TASKS, count = JOBS, load = 0.8, guaranteed-percent = 20 }
    masters = { container = true, share-percent = 100, start-ms = 200 }
    run = { level = "LEVEL", seeds = 1 }
    arm = [
        { policy = "central" },
        { policy = "spread" },
        { policy = "list-order" },
        { policy = "look", look-ms = 0 },
        { policy = "look", name = "frozen", look-ms = 0, pause = true, pause-memory-percent = 100 },
        { policy = "central", name = "by wait", comparator = "QUEUE_WAIT_TIME" },
    ]
"#;

/// Size of a scenario.
struct Size {
    nodes: u32,
    places: u32,
    jobs: u32,
    tasks: u32,
}

const SMALL: Size = Size {
    nodes: 10,
    places: 4,
    jobs: 20,
    tasks: 20,
};

fn at_level(size: &Size, level: &str, threads: usize) -> (Scenario, Results) {
    let text = ARMS
        .replace("NODES", &size.nodes.to_string())
        .replace("PLACES", &size.places.to_string())
        .replace("JOBS", &size.jobs.to_string())
        .replace("TASKS", &size.tasks.to_string())
        .replace("LEVEL", level);
    results_of(&text, threads)
}

/// Returns the run of each arm.
fn runs(results: &Results) -> impl Iterator<Item = &RunFigures> {
    results.runs.iter().map(|runs| runs[0].as_ref().unwrap())
}

/// Compares every figure, every job, every wait, and use and queues at each second.
fn assert_levels_agree(size: &Size) {
    let (scenario, decisions) = at_level(size, "decisions", 2);
    let (_, agents) = at_level(size, "agents", 2);
    let pairs = runs(&agents).zip(runs(&decisions)).zip(&scenario.arms);
    for ((agents, decisions), arm) in pairs {
        let values = agents.values.iter().zip(&decisions.values).zip(FIGURES);
        let other = values.filter(|((agents, decisions), _)| agents != decisions);
        let other: Vec<_> = other
            .map(|(values, figure)| (figure.name, values))
            .collect();
        assert!(other.is_empty(), "{}: {other:?}", arm.label());
        assert!(agents == decisions, "{}", arm.label());
    }
    // What is compared did happen.
    let arms = summaries(&scenario, &agents.runs);
    let total = |name| arms.iter().map(|arm| figure(arm, name).mean).sum::<f64>();
    for name in [
        "shed",
        "evicted",
        "paused",
        "looks_node_s",
        "list_entries_s",
    ] {
        assert!(total(name) > 0.0, "{name}");
    }
}

/// Has guaranteed containers that wait on nodes at the moments of samples and of looks.
#[test]
fn the_two_levels_agree() {
    assert_levels_agree(&Size {
        nodes: 20,
        places: 2,
        jobs: 60,
        tasks: 30,
    });
}

#[test]
#[ignore = "takes more than a minute: cargo test -p simulate --test simulations levels -- --ignored"]
fn the_two_levels_agree_on_100_nodes_with_200_jobs() {
    assert_levels_agree(&Size {
        nodes: 100,
        places: 8,
        jobs: 200,
        tasks: 100,
    });
}

#[test]
fn whole_agents_give_the_same_bytes_for_any_number_of_threads() {
    let texts = |threads| {
        let (scenario, results) = at_level(&SMALL, "agents", threads);
        let arms = summaries(&scenario, &results.runs);
        [
            table(&scenario, &arms),
            runs_csv(&scenario, &results),
            jobs_csv(&scenario, &results),
        ]
    };
    assert!(texts(1) == texts(3));
}

#[test]
fn what_a_level_has_not_is_refused_with_its_key() {
    let good = r#"
        title = "agents"
        cluster = { nodes = 1, places = 8, resource-manager = "embedded" }
        workload = { jobs = "even", count = 2, load = 0.5 }
        masters = { container = true, share-percent = 100 }
        failures = { up-s = 0 }
        run = { level = "agents" }
        arm = [{ policy = "central" }]
    "#;
    assert!(Scenario::read(good).is_ok());
    for (from, to, expected) in [
        ("\"agents\" }", "\"agent\" }", "unknown variant `agent`"),
        ("\"embedded\"", "\"other\"", "unknown variant `other`"),
        (
            "\"embedded\"",
            "\"hadoop\"",
            "cluster.resource-manager: run.level = \"agents\"",
        ),
        ("nodes = 1", "nodes = 20001", "cluster.nodes: the embedded"),
        (
            "places = 8",
            "places = 8, news-age-ms = 5",
            "cluster.news-age-ms: at run.level",
        ),
        ("count = 2", "count = 10001", "workload.count: run.level"),
        (
            "container = true",
            "container = false",
            "masters.container: at run.level",
        ),
        (
            "share-percent = 100",
            "share-percent = 10",
            "masters.share-percent: cluster.resource-",
        ),
        (
            "up-s = 0",
            "up-s = 5",
            "failures.up-s: nodes do not fail under",
        ),
        ("\"central\"", "\"random\"", "arm 1.policy: run.level"),
        (
            "\"central\"",
            "\"guaranteed-fair\"",
            "arm 1.policy: run.level",
        ),
        (
            "\"central\"",
            "\"look\", holds-back = false",
            "arm 1.holds-back: at run.level",
        ),
        (
            "\"central\"",
            "\"look\", uses-old-news = true",
            "arm 1.uses-old-news: at run.level",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let error = Scenario::read(&good.replacen(from, to, 1)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
    // Models of Hadoop's scheduler are no part of the embedded one.
    let text = good
        .replace("\"agents\"", "\"decisions\"")
        .replace("\"central\"", "\"guaranteed-fifo\"");
    let error = Scenario::read(&text).unwrap_err().to_string();
    assert!(error.contains("arm 1.policy: guaranteed-*"), "{error}");
}
