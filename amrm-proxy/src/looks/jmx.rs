//! Load of a node in its answer to `/jmx`. Pure.
//!
//! The query selects one bean, the same of Java's NodeManager and of ours (Hadoop:
//! `NodeManagerMetrics`). Numbers of memory are in GiB, rounded to the node's disadvantage. What is
//! available counts containers that wait as well, so it may be below 0 while some do.
//!
//! Our nodes answer with the numbers of that moment, and in MiB: a container of 256 MiB fits where
//! less than one GiB is left. Java's answer with a copy that is made anew at
//! most once in a period of its metrics, 10 s by default (Hadoop: `MetricsSourceAdapter`,
//! `jmxCacheTTL`), and do not say how old it is. Of those only what the node offers in all is used.

use records::{MonoMillis, Resource};
use sched::Sight;
use serde::Deserialize;
use thiserror::Error;

use super::connections::Question;

/// Name of the bean.
const BEAN: &str = "Hadoop:service=NodeManager,name=NodeManagerMetrics";

/// The answer of a node has 2,000 bytes.
pub(super) const QUESTION: Question = Question {
    path: "/jmx?qry=Hadoop:service=NodeManager,name=NodeManagerMetrics",
    bytes_max: 64 * 1024,
};

/// Largest number of containers that a node can have.
const CONTAINERS_MAX: i64 = 1_000_000;

/// Most beans of an answer that are read. The query selects one.
const BEANS_MAX: usize = 16;

const MIB_PER_GIB: i64 = 1_024;

/// Reason for which an answer tells nothing.
#[derive(Debug, Error)]
pub enum JmxError {
    /// The answer is no JSON, or its numbers are none.
    #[error("no JSON with the numbers of a NodeManager: {0}")]
    Json(#[from] serde_json::Error),
    /// The bean of a NodeManager is not there.
    #[error("no bean {BEAN}")]
    NoBean,
    /// A number that no node can have.
    #[error("{name} is {value}, which no node can have")]
    Impossible {
        /// Name of the number.
        name: &'static str,
        /// Number in the answer.
        value: i64,
    },
    /// The numbers of another node, whose host's name this is.
    #[error("the answer is that of another host, {0:?}")]
    OtherHost(String),
}

#[derive(Deserialize)]
struct Answer {
    beans: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Bean {
    #[serde(rename = "tag.Hostname")]
    hostname: Option<String>,
    #[serde(rename = "ContainersOpportunisticQueued")]
    opportunistic_queued: i64,
    #[serde(rename = "ContainersGuaranteedQueued", default)]
    guaranteed_queued: i64,
    /// 0 or 1, told by our nodes only, whose numbers are those of the moment.
    #[serde(rename = "TakesOpportunisticContainers")]
    takes_opportunistic: Option<i64>,
    #[serde(rename = "ContainersRunning")]
    running: i64,
    #[serde(rename = "RunningOpportunisticContainers", default)]
    opportunistic_running: i64,
    #[serde(rename = "AvailableGB")]
    available_gb: i64,
    /// Told by our nodes only.
    #[serde(rename = "AvailableMB")]
    available_mb: Option<i64>,
    #[serde(rename = "AllocatedGB", default)]
    allocated_gb: i64,
    #[serde(rename = "AvailableVCores")]
    available_vcores: i64,
    #[serde(rename = "AllocatedVCores", default)]
    allocated_vcores: i64,
}

/// Content of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Load of the node when it was asked.
    Load(Sight),
    /// The load is that of some moment before. The node offers this in all, whatever its load.
    Offers(Resource),
}

/// Reads an answer. `seen_at`: time at which the node was asked. `is_other_host` tells whether a
/// name belongs to another host of the cluster, whose load this would be.
///
/// # Errors
/// [`JmxError`]: the answer tells nothing.
pub fn read_numbers(
    answer: &[u8],
    seen_at: MonoMillis,
    is_other_host: impl Fn(&str) -> bool,
) -> Result<Told, JmxError> {
    let Answer { beans } = serde_json::from_slice(answer)?;
    let mut beans = beans.into_iter().take(BEANS_MAX);
    let bean = beans.find(|bean| bean["name"] == BEAN);
    let bean: Bean = serde_json::from_value(bean.ok_or(JmxError::NoBean)?)?;
    if let Some(name) = bean.hostname.filter(|name| is_other_host(name)) {
        return Err(JmxError::OtherHost(name.chars().take(100).collect()));
    }
    let count = |name, value: i64| match u32::try_from(value) {
        Ok(count) if value <= CONTAINERS_MAX => Ok(count),
        _ => Err(JmxError::Impossible { name, value }),
    };
    let running = bean.running.max(bean.opportunistic_running);
    let running = count("ContainersRunning", running)?;
    let opportunistic = count("ContainersOpportunisticQueued", bean.opportunistic_queued)?;
    let guaranteed = count("ContainersGuaranteedQueued", bean.guaranteed_queued)?;
    let Some(takes_opportunistic) = bean.takes_opportunistic else {
        // Both parts are of one moment, so that their sum is what the node offers.
        return Ok(Told::Offers(resource(
            bean.available_gb.saturating_add(bean.allocated_gb),
            bean.available_vcores.saturating_add(bean.allocated_vcores),
        )));
    };
    let queued = match takes_opportunistic {
        0 => Sight::CLOSED,
        1 => opportunistic + guaranteed,
        value => {
            let name = "TakesOpportunisticContainers";
            return Err(JmxError::Impossible { name, value });
        }
    };
    Ok(Told::Load(Sight {
        running,
        queued,
        free: bean.available_mb.map_or_else(
            || resource(bean.available_gb, bean.available_vcores),
            |mb| resource_of_mb(mb, bean.available_vcores),
        ),
        seen_at,
    }))
}

/// Returns an amount in GiB and vcores; nothing of what is below 0.
fn resource(gib: i64, vcores: i64) -> Resource {
    resource_of_mb(gib.saturating_mul(MIB_PER_GIB), vcores)
}

/// Returns an amount in MiB and vcores; nothing of what is below 0.
fn resource_of_mb(mb: i64, vcores: i64) -> Resource {
    let amount = |amount: i64| u64::try_from(amount).unwrap_or(0);
    Resource::new(
        amount(mb),
        u32::try_from(amount(vcores)).unwrap_or(u32::MAX),
    )
}

/// Bounds what a node claims to have free by what it offers in all.
pub(super) fn within(sight: Sight, capability: Resource) -> Sight {
    Sight {
        free: Resource::new(
            sight.free.memory_mb.min(capability.memory_mb),
            sight.free.vcores.min(capability.vcores),
        ),
        ..sight
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const AT: MonoMillis = MonoMillis(7);

    /// Numbers of a node with two guaranteed and three opportunistic containers.
    fn bean() -> Value {
        json!({
            "name": BEAN,
            "modelerType": "NodeManagerMetrics",
            "tag.Context": "yarn",
            "tag.Hostname": "n1",
            "ContainersLaunched": 90,
            "ContainersRunning": 5,
            "RunningOpportunisticContainers": 3,
            "ContainersOpportunisticQueued": 0,
            "ContainersGuaranteedQueued": 0,
            "TakesOpportunisticContainers": 1,
            "AllocatedGB": 5,
            "AvailableGB": 3,
            "AllocatedVCores": 5,
            "AvailableVCores": 4,
            "NodeCpuUtilization": 0.5,
        })
    }

    fn told(bean: &Value) -> Result<Told, JmxError> {
        let answer = json!({"beans": [{"name": "other"}, bean]}).to_string();
        read_numbers(answer.as_bytes(), AT, |name| name == "n2")
    }

    fn read(bean: &Value) -> Result<Sight, JmxError> {
        told(bean).map(|told| match told {
            Told::Load(sight) => sight,
            Told::Offers(_) => panic!("the numbers are those of the moment"),
        })
    }

    /// Reads the numbers with another value of one of them.
    fn with(name: &str, value: Value) -> Result<Sight, JmxError> {
        let mut bean = bean();
        bean[name] = value;
        read(&bean)
    }

    #[test]
    fn the_load_is_that_of_the_bean() {
        let expected = Sight {
            running: 5,
            queued: 0,
            free: Resource::new(3_072, 4),
            seen_at: AT,
        };
        assert_eq!(read(&bean()).unwrap(), expected);
        // Containers of both types wait, so that less than nothing is available.
        let mut waiting = bean();
        waiting["ContainersOpportunisticQueued"] = json!(2);
        waiting["ContainersGuaranteedQueued"] = json!(1);
        waiting["AvailableGB"] = json!(-2);
        waiting["AvailableVCores"] = json!(-1);
        let sight = read(&waiting).unwrap();
        assert_eq!((sight.queued, sight.free), (3, Resource::new(0, 0)));
    }

    #[test]
    fn numbers_of_unknown_age_are_no_load_but_tell_what_the_node_offers() {
        let mut java = bean();
        java.as_object_mut()
            .unwrap()
            .remove("TakesOpportunisticContainers");
        let offers = Told::Offers(Resource::new(8_192, 9));
        assert_eq!(told(&java).unwrap(), offers);
        // With containers that wait.
        java["AllocatedGB"] = json!(10);
        java["AvailableGB"] = json!(-2);
        assert_eq!(told(&java).unwrap(), offers);
        java["ContainersOpportunisticQueued"] = json!(-1);
        assert!(told(&java).is_err());
    }

    #[test]
    fn a_node_that_takes_none_has_no_room_however_little_runs_there() {
        let queued = |takes| {
            let read = with("TakesOpportunisticContainers", json!(takes));
            read.unwrap().queued
        };
        assert_eq!(queued(1), 0);
        assert_eq!(queued(0), Sight::CLOSED);
        for strange in [-1, 2, i64::MAX] {
            assert!(with("TakesOpportunisticContainers", json!(strange)).is_err());
        }
    }

    #[test]
    fn negative_endless_and_strange_numbers_are_no_load() {
        for name in [
            "ContainersOpportunisticQueued",
            "ContainersGuaranteedQueued",
            "ContainersRunning",
        ] {
            for value in [-9, CONTAINERS_MAX + 1, i64::MAX] {
                let others = name == "ContainersRunning" && value < 0;
                let read = with(name, json!(value));
                assert_eq!(read.is_err(), !others, "{name} {value}: {read:?}");
            }
            for value in [
                json!("3"),
                json!(0.5),
                json!([1]),
                json!({"a": 1}),
                json!(u64::MAX),
            ] {
                assert!(with(name, value.clone()).is_err(), "{name} {value}");
            }
        }
        for name in [
            "ContainersOpportunisticQueued",
            "ContainersRunning",
            "AvailableGB",
        ] {
            let mut bean = bean();
            bean.as_object_mut().unwrap().remove(name);
            assert!(read(&bean).is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_free_is_known_to_the_mebibyte_where_the_node_tells_it() {
        let free_mb = |mb: i64| with("AvailableMB", json!(mb)).unwrap().free.memory_mb;
        assert_eq!([300, 0, -1_024].map(free_mb), [300, 0, 0]);
        assert!(with("AvailableMB", json!("300")).is_err());
    }

    #[test]
    fn a_node_has_at_most_free_what_it_offers() {
        let mut liar = bean();
        liar["AvailableGB"] = json!(i64::MAX);
        liar["AvailableVCores"] = json!(i64::MAX);
        let sight = read(&liar).unwrap();
        let offered = Resource::new(8_192, 8);
        assert_eq!(within(sight, offered).free, offered);
    }

    #[test]
    fn the_numbers_of_another_host_are_not_those_of_this_one() {
        assert!(with("tag.Hostname", json!("n2")).is_err());
        assert!(with("tag.Hostname", json!("n1.alias")).is_ok());
        assert!(with("tag.Hostname", Value::Null).is_ok());
    }

    #[test]
    fn answers_that_are_no_numbers_are_refused() {
        for answer in [
            "",
            "{}",
            "[]",
            "{\"beans\": []}",
            "<html>",
            "{\"beans\": [1, null]}",
        ] {
            assert!(
                read_numbers(answer.as_bytes(), AT, |_| false).is_err(),
                "{answer}"
            );
        }
        let nested = format!("{{\"beans\": {}", "[".repeat(30_000));
        assert!(read_numbers(nested.as_bytes(), AT, |_| false).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_numbers(&bytes, AT, |_| true);
        }
    }
}
