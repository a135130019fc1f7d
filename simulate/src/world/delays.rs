//! Delays of a run, each drawn from a stream of its own: another distribution of one of them leaves
//! the others alone.

use sim::{Random, Streams};

use crate::delay::Delay;
use crate::scenario::{Delays, Masters};

/// Delay with the stream that it is drawn from.
struct Drawn {
    delay: Delay,
    random: Random,
}

impl Drawn {
    fn new(delay: &Delay, subject: &str, streams: Streams) -> Self {
        Self {
            delay: delay.clone(),
            random: streams.stream(subject, 0),
        }
    }

    fn next(&mut self) -> u64 {
        self.delay.sample(&mut self.random)
    }
}

pub(super) struct Delayed {
    pub(super) out_of_band: bool,
    node_heartbeat: Drawn,
    am_heartbeat: Drawn,
    start_call: Drawn,
    kill: Drawn,
    pause: Drawn,
    master_start: Drawn,
    launch: Delay,
    streams: Streams,
    phases: Random,
}

impl Delayed {
    pub(super) fn new(delays: &Delays, masters: &Masters, streams: Streams) -> Self {
        let drawn = |delay, subject| Drawn::new(delay, subject, streams);
        Self {
            out_of_band: delays.out_of_band,
            node_heartbeat: drawn(&delays.node_heartbeat, "node heartbeat"),
            am_heartbeat: drawn(&delays.am_heartbeat, "AM heartbeat"),
            start_call: drawn(&delays.start_call, "start call"),
            kill: drawn(&delays.kill, "kill"),
            pause: drawn(&delays.pause, "pause"),
            master_start: drawn(&masters.start_ms, "master start"),
            launch: delays.launch.clone(),
            streams,
            phases: streams.stream("phases", 0),
        }
    }

    /// Returns the time until a node's first heartbeat.
    pub(super) fn node_phase(&mut self) -> u64 {
        let interval = self.node_heartbeat();
        self.phases.below(interval)
    }

    /// Returns the time until a master's first heartbeat.
    pub(super) fn am_phase(&mut self) -> u64 {
        let interval = self.am_heartbeat();
        self.phases.below(interval)
    }

    pub(super) fn node_heartbeat(&mut self) -> u64 {
        self.node_heartbeat.next().max(1)
    }

    pub(super) fn am_heartbeat(&mut self) -> u64 {
        self.am_heartbeat.next().max(1)
    }

    pub(super) fn start_call(&mut self) -> u64 {
        self.start_call.next()
    }

    pub(super) fn kill(&mut self) -> u64 {
        self.kill.next()
    }

    pub(super) fn pause(&mut self) -> u64 {
        self.pause.next()
    }

    pub(super) fn master_start(&mut self) -> u64 {
        self.master_start.next()
    }

    /// Returns the launch of a task: the same each time, and under every arm of a seed.
    pub(super) fn launch(&self, job: usize, task: usize) -> u64 {
        // Tasks are numbered through all jobs of any likely size.
        let number = ((job as u64) << 24) ^ task as u64;
        let subject = if self.launch.is_fixed() { "" } else { "launch" };
        self.launch
            .sample(&mut self.streams.stream(subject, number))
    }
}
