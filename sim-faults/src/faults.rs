//! Faults as a schedule that follows from the seed.

use sim::{Distribution, Random};

use crate::context::Context;
use crate::event::Event;
use crate::fault::Fault;
use crate::scenario::Scenario;

/// Draws the time from the end of an agent to the start of the next, in milliseconds.
pub fn agent_down_ms(random: &mut Random) -> u64 {
    Distribution::LogUniform(10, 40_000).sample(random)
}

/// Plans all faults of a run.
pub fn plan(scenario: &Scenario, random: &mut Random, context: &mut Context) {
    let until = scenario.faults_until_ms();
    let nodes = scenario.size.nodes as u64;
    let rates = &scenario.faults;
    type Draw = fn(usize, &mut Random, u64) -> Fault;
    let kinds: [(Option<u64>, Draw); 7] = [
        (rates.agent_crash_ms, |node, random, _| {
            Fault::AgentCrash(node, agent_down_ms(random))
        }),
        (rates.machine_crash_ms, |node, random, _| {
            let down_ms = Distribution::LogUniform(5_000, 60_000).sample(random);
            Fault::MachineCrash(node, down_ms)
        }),
        (rates.partition_ms, cut),
        (rates.clock_ms, |node, random, _| {
            let far = Distribution::LogUniform(100, 60_000).sample(random);
            let far = i64::try_from(far).unwrap_or(0);
            let ahead_ms = if random.chance(500_000) { far } else { -far };
            Fault::SetClock(node, ahead_ms)
        }),
        (rates.slow_disk_ms, |node, random, _| {
            Fault::SlowDisk(node, random.within(1_000..=30_000))
        }),
        (rates.memory_ms, |node, _, _| Fault::Memory(node)),
        (rates.rm_restart_ms, |_, _, _| Fault::RmRestart),
    ];
    for (mean, draw) in kinds {
        let Some(mean) = mean else {
            continue;
        };
        let gap = Distribution::Exponential(mean.max(1));
        let mut at = gap.sample(random);
        while at < until {
            let node = usize::try_from(random.below(nodes)).unwrap_or(0);
            let fault = draw(node, random, nodes);
            context.queue.push_at(at, Event::Fault(fault));
            at += gap.sample(random).max(1);
        }
    }
    context.queue.push_at(until, Event::Fault(Fault::Over));
}

fn cut(node: usize, random: &mut Random, nodes: u64) -> Fault {
    let is_rm = random.chance(600_000);
    let other = usize::try_from(random.below(nodes)).unwrap_or(0);
    let one_way = random.chance(400_000);
    let from_node = !one_way || random.chance(500_000);
    Fault::Cut {
        node,
        other: (!is_rm).then_some(other),
        from_node,
        to_node: !one_way || !from_node,
        for_ms: Distribution::LogUniform(500, 60_000).sample(random),
    }
}
