//! All attacks at once, beside polite peers that must not notice: strangers and a tenant against
//! an agent with 1 GiB of address space and 4,096 open files.
//!
//! `NM_AGENT_SOAK_S` is the length in seconds, 5 by default. From 60 seconds on the test also
//! claims that no polite call took a second, which a short run on a busy machine cannot. The
//! figures go to standard error (`--nocapture`).
//!
//! What the agent uses afterwards is compared with an agent that has served the same polite peers
//! for a fifth of the time, so that what is compared is what the attacks left. What a node keeps
//! for a time by contract, used tokens and ended containers, it keeps for half a minute here.
//! Threads that launch and delete start when many containers do so at once, and end when they are
//! idle.
//!
//! The first burst of an agent's life leaves some MiB behind: pages in which the allocator keeps a
//! freed piece for each thread. A second soak leaves nothing more, which a long one claims.

mod polite;
mod strangers;
mod tenant;
mod web;
mod zip_bomb;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use records::{ApplicationAttemptId, ApplicationId, NodeId};
use test_support::scripted::{ScriptedAm, ScriptedRm};
use test_support::{Allocation, now_ms};
use wire::token::Token;

use self::polite::Polite;
use super::limits::{allow_many_files, limited_with};
use super::usage::{self, Usage};

/// User of all attacks that need a token.
const TENANT: &str = "mallory";

/// User of the polite ApplicationMaster.
const POLITE_USER: &str = "ann";

/// Length of the soak when nothing else is asked for.
const SHORT: Duration = Duration::from_secs(5);

/// Length from which on the time of polite calls is claimed.
const LONG: Duration = Duration::from_secs(60);

/// Longest polite call that a long soak accepts.
const CALL_MAX: Duration = Duration::from_secs(1);

/// Containers that the polite master starts in one call, of either type, before the measuring.
const AT_ONCE: usize = 16;

/// Life of the tokens that start containers, in milliseconds. Used ones stay known for as long.
const TOKEN_LIFE_MS: i64 = 30_000;

/// Time for which a node remembers that containers have ended, in milliseconds.
const TRACKED_MS: i64 = 30_000;

/// Part of the soak's length for which the polite peers are alone before the measuring.
const ALONE: u32 = 5;

/// Deadline for the agent to give everything back. Idle threads of the runtime end after 10 s, and
/// peers that vanish are noticed within a minute.
const BACK_DEADLINE: Duration = Duration::from_secs(90);

/// Node under attack, as all peers see it.
struct Field<'a> {
    rm: &'a ScriptedRm,
    node: NodeId,
    web_port: u16,
    /// Folder of files that containers may ask for.
    folder: PathBuf,
    is_over: Mutex<bool>,
    over: Condvar,
}

impl Field<'_> {
    fn is_over(&self) -> bool {
        *self.is_over.lock().unwrap()
    }

    /// Waits this long, or until the end of the soak.
    fn pause(&self, time: Duration) {
        let is_over = self.is_over.lock().unwrap();
        let waited = self.over.wait_timeout_while(is_over, time, |over| !*over);
        drop(waited.unwrap());
    }

    fn set_over(&self, is_over: bool) {
        *self.is_over.lock().unwrap() = is_over;
        self.over.notify_all();
    }

    /// Returns the first attempt of the application with this number.
    fn attempt(&self, application: i32) -> ApplicationAttemptId {
        ApplicationId::new(self.rm.secrets().rm_identifier, application).attempt(1)
    }

    /// Returns the NMToken of the tenant's application with this number.
    fn tenant_token(&self, application: i32) -> Token {
        let attempt = self.attempt(application);
        self.rm.secrets().nm_token(attempt, &self.node, TENANT)
    }
}

/// A kind of attack, which repeats one round until the soak is over.
struct Attack {
    name: &'static str,
    /// Makes one round and returns how many attacks were made.
    round: Box<dyn FnMut(&Field<'_>) -> u64 + Send>,
}

/// Returns a new guaranteed container whose token does not live long.
fn allocate(am: &ScriptedAm) -> Allocation {
    let mut allocation = am.allocate();
    allocation.expires_ms = now_ms() + TOKEN_LIFE_MS;
    allocation
}

fn attack(name: &'static str, round: impl FnMut(&Field<'_>) -> u64 + Send + 'static) -> Attack {
    let round = Box::new(round);
    Attack { name, round }
}

#[test]
#[ignore = "takes minutes; run by name"]
fn polite_peers_notice_nothing_of_all_attacks_together() {
    allow_many_files();
    let length = std::env::var("NM_AGENT_SOAK_S").ok();
    let length = length.map_or(SHORT, |text| Duration::from_secs(text.parse().unwrap()));
    let limited = limited_with(|properties| {
        properties.set(
            "yarn.nodemanager.opportunistic-containers-max-queue-length",
            200,
        );
        properties.set(
            "yarn.nodemanager.duration-to-track-stopped-containers",
            TRACKED_MS,
        );
    });
    let cluster = &limited.cluster;
    cluster.rm.with(|tracker| tracker.acknowledge_all = true);
    let field = Field {
        rm: &cluster.rm,
        node: cluster.am.node().clone(),
        web_port: u16::try_from(cluster.rm.wait_registrations(1).http_port()).unwrap(),
        folder: cluster.node.folder().join("sources"),
        is_over: Mutex::new(false),
        over: Condvar::new(),
    };
    std::fs::create_dir(&field.folder).unwrap();
    let log = polite::write_log(&cluster.am, &cluster.rm, length);
    let polite = |application| {
        let am = ScriptedAm::connect_as(POLITE_USER, &cluster.rm, application);
        Polite::new(am, log.clone())
    };
    // They hold connections until they are dropped.
    let attacks = || {
        let strangers = strangers::attacks().into_iter();
        let tenants = tenant::attacks(&field);
        let attacks: Vec<_> = strangers.chain(tenants).chain(web::attacks(&log)).collect();
        attacks
    };
    // What is allocated once stays: each attack has its turn before the measuring begins.
    for attack in &mut attacks() {
        (attack.round)(&field);
    }
    let pid = cluster.node.process.id();
    let alone = polite(2);
    alone.start_many(&cluster.rm, AT_ONCE);
    soak(&field, Vec::new(), &alone, length / ALONE, pid);
    alone.assert_served();
    eprint!("alone:\n{alone}");
    let round = |application, more_kb| {
        let before = usage::settled(pid);
        let polite = polite(application);
        let counts = soak(&field, attacks(), &polite, length, pid);
        print_figures(&before, &counts, &polite, length);
        assert!(
            counts.attacks.values().all(|count| *count > 0),
            "{counts:?}"
        );
        polite.assert_served();
        if length >= LONG {
            let slowest = polite.slowest();
            assert!(slowest.1 < CALL_MAX, "{slowest:?}");
        }
        drop(polite);
        let serves = || cluster.assert_serves();
        let after = usage::wait_back(pid, &before, more_kb, BACK_DEADLINE, serves);
        eprintln!("after:  {after:?}");
        cluster.assert_serves();
        after.unwrap();
    };
    round(3, usage::FIRST_BURST_KB);
    if length >= LONG {
        round(4, 0);
    }
}

#[derive(Debug)]
struct Counts {
    attacks: BTreeMap<&'static str, u64>,
    peak: Usage,
}

/// Runs attacks and polite peers for this long; returns how many attacks were made, and the most
/// that the agent used meanwhile.
fn soak(
    field: &Field<'_>,
    attacks: Vec<Attack>,
    polite: &Polite,
    length: Duration,
    pid: u32,
) -> Counts {
    let made: Vec<(&'static str, AtomicU64)> = attacks
        .iter()
        .map(|attack| (attack.name, AtomicU64::new(0)))
        .collect();
    field.set_over(false);
    let end = Instant::now() + length;
    let mut peak = Usage::of(pid);
    thread::scope(|scope| {
        for (mut attack, (_, made)) in attacks.into_iter().zip(&made) {
            scope.spawn(move || {
                while !field.is_over() {
                    made.fetch_add((attack.round)(field), Ordering::Relaxed);
                    field.pause(Duration::from_millis(100));
                }
            });
        }
        polite.start(scope, field);
        while Instant::now() < end {
            field.pause(Duration::from_millis(250));
            peak = peak.max(Usage::of(pid));
        }
        field.set_over(true);
    });
    let attacks = made
        .into_iter()
        .map(|(name, made)| (name, made.into_inner()))
        .collect();
    Counts { attacks, peak }
}

fn print_figures(before: &Usage, counts: &Counts, polite: &Polite, length: Duration) {
    eprintln!("a soak of {} s", length.as_secs());
    for (name, count) in &counts.attacks {
        eprintln!("  {count:8} {name}");
    }
    eprint!("{polite}");
    eprintln!("before: {before}");
    eprintln!("peak:   {}", counts.peak);
}
