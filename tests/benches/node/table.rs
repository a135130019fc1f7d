//! The figures as tables.

use tests::bench::{Row, Table, Unit};
use tests::samples::Samples;

use crate::classes::{Confined, GuaranteedStarts};
use crate::limits::Limits;
use crate::measure::Figures;

/// Returns the text with the machine's own times that the limits are made of.
pub(crate) fn render_machine(limits: &Limits) -> String {
    format!(
        "this machine, p50: fork and exec of /bin/true to its end {:.2} ms, of `bash -c :` {:.2} ms, \
         loopback round trip {:.3} ms; a bash that executes the command's, as a launch script does: \
         first instruction {:.2} ms, {:.0} lives/s\nlimit: exec and three round trips; the command's \
         bash with a container's environment; those on all processors; the CPU time for a \
         container's files, its process and their removal; SIGTERM to `sleep`\ntimes: \
         p50 / p99 (number of samples); the longest, named max, where there are fewer than 100\n",
        limits.true_life.p50(),
        limits.bash_life.p50(),
        limits.round_trip.p50(),
        limits.pair.first_instruction.p50(),
        limits.pair.lives_per_s,
    )
}

/// Returns the table of a node that runs what is started.
pub(crate) fn render(limits: &Limits, agent: &Figures, java: Option<&Figures>) -> String {
    let mut table = Table::default();
    let times = |what, figure: fn(&Figures) -> &Samples| {
        Row::new(what, Unit::Ms, figure(agent)).java(java.map(figure))
    };
    let amount = |what, unit, figure: fn(&Figures) -> f64| {
        Row::new(what, unit, figure(agent)).java(java.map(figure))
    };
    let registration = limits.true_life.p50() + 3.0 * limits.round_trip.p50();
    let first = &limits.bash.first_instruction;
    let stop = limits.stop.p50();
    let rows = [
        times("process start to registered", |f| &f.registration)
            .limit(registration)
            .in_readme(),
        times(
            "`startContainers` to the command's first instruction",
            |f| &f.launches.plain,
        )
        .limit(first)
        .in_readme(),
        times("the same with 5 links", |f| &f.launches.links_5).in_readme(),
        times("the same with 20 links", |f| &f.launches.links_20),
        times("the same with 1,000 queued", |f| &f.launches.queued_1_000),
        times("the same with 10,000 queued", |f| &f.launches.queued_10_000).in_readme(),
        times("the same, 40 in one call", |f| &f.burst),
        amount("lives of one container at a time", Unit::PerSecond, |f| {
            f.serial.per_s
        }),
        amount("container lives, 32 at once", Unit::PerSecond, |f| {
            f.sustained.per_s
        })
        .limit(limits.bash.lives_per_s)
        .in_readme(),
        amount("CPU time of the node for each of them", Unit::Ms, |f| {
            f.sustained.processor_ms
        })
        .limit(limits.life_processor_ms)
        .in_readme(),
        times("orderly stop, idle", |f| &f.stop_idle).limit(stop),
        amount("orderly stop, 50 running and 950 queued", Unit::Ms, |f| {
            f.stop_full_ms
        })
        .limit(stop)
        .in_readme(),
        amount("resident memory, idle", Unit::Mib, |f| f.rss_idle_mb).in_readme(),
        amount(
            "resident memory, after the launches above",
            Unit::Mib,
            |f| f.rss_used_mb,
        ),
        amount(
            "resident memory, 50 running and 950 queued",
            Unit::Mib,
            |f| f.rss_full_mb,
        )
        .in_readme(),
    ];
    rows.into_iter().for_each(|row| table.push(row));
    table.render()
}

/// Returns the table of the cost of cgroups and of guaranteed starts on a full node.
pub(crate) fn render_classes(
    confined: Option<&Confined>,
    starts: &GuaranteedStarts,
    java: Option<&GuaranteedStarts>,
) -> String {
    let mut table = Table::default();
    if let Some(confined) = confined {
        let launches = [
            ("a launch without cgroups", &confined.plain),
            ("a launch with cgroups", &confined.confined),
        ];
        for (what, launches) in launches {
            table.push(Row::new(what, Unit::Ms, &launches.first_instruction));
            let what = format!("{what}: lives, 32 at once");
            table.push(Row::new(what, Unit::PerSecond, launches.lives.per_s));
        }
        let starts = [
            (
                "guaranteed start that freezes a sleeping container",
                &confined.freezing,
            ),
            (
                "guaranteed start that freezes one of eight CPU-bound containers",
                &confined.freezing_burners,
            ),
            (
                "guaranteed start that kills one in a cgroup that ignores SIGTERM (250 ms)",
                &confined.killing_deaf,
            ),
        ];
        for (what, samples) in starts {
            table.push(Row::new(what, Unit::Ms, samples));
        }
    }
    let what = "guaranteed start that evicts a sleeping container";
    let row = Row::new(what, Unit::Ms, &starts.killing).java(java.map(|java| &java.killing));
    table.push(row.in_readme());
    let what = "guaranteed start that kills one that ignores SIGTERM (250 ms)";
    let java = java.map(|java| &java.killing_deaf);
    table.push(Row::new(what, Unit::Ms, &starts.killing_deaf).java(java));
    table.render()
}
