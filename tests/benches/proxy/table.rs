//! The figures as a table.

use tests::bench::{Row, Table, Unit};
use tests::samples::Samples;

use crate::measure::{Calls, Figures, LONG_LISTS, Pairs};
use crate::reserved::PER_S;

/// A kind of call: its name, its times, the node's CPU time for it, and whether README.md shows the
/// whole time and what the proxy adds.
type Kind = (
    &'static str,
    fn(&Calls) -> &Pairs,
    fn(&Calls) -> f64,
    [bool; 2],
);

const KINDS: [Kind; 2] = [
    (
        "`allocate` without asks",
        |calls| &calls.empty,
        |calls| calls.empty_processor_ms,
        [false, true],
    ),
    (
        "100 opportunistic containers in one call",
        |calls| &calls.hundred,
        |calls| calls.hundred_processor_ms,
        [true, false],
    ),
];

/// Figures of both nodes, and the machine's limit: the round trip of a byte.
pub(crate) struct Measured {
    pub(crate) round_trip: Samples,
    pub(crate) ours: Figures,
    pub(crate) hadoops: Option<Figures>,
}

impl Measured {
    /// Returns the table, with its conditions above it.
    pub(crate) fn render(&self) -> String {
        let mut table = Table::default();
        let masters = self.ours.masters;
        self.calls(&mut table, "1 ApplicationMaster", |f| &f.alone, false);
        self.scraped(&mut table);
        self.long_lists(&mut table);
        if let Some([without, with]) = self.ours.reserved {
            let what = format!("CPUs that the node uses for {PER_S} reservations a second");
            table.push(Row::new(what, Unit::Processors, with - without));
        }
        let all = format!("{masters} ApplicationMasters");
        self.calls(&mut table, &all, |f| &f.among_all, true);
        let what = "`allocate` without asks, each of the next ApplicationMaster";
        let java = self.hadoops.as_ref().map(|f| &f.in_turn);
        table.push(Row::new(what, Unit::Ms, &self.ours.in_turn).java(java));
        let amount = |what, unit, figure: fn(&Figures) -> f64| {
            Row::new(what, unit, figure(&self.ours)).java(self.hadoops.as_ref().map(figure))
        };
        let together = [
            amount(
                "calls of all ApplicationMasters, which share the machine",
                Unit::PerSecond,
                |f| f.calls_per_s,
            ),
            amount("CPUs that the node uses for them", Unit::Processors, |f| {
                f.processors
            }),
            amount(
                "calls that two CPUs of the node's own would carry",
                Unit::PerSecond,
                |f| 2.0 * f.calls_per_s / f.processors,
            ),
        ];
        together.into_iter().for_each(|row| table.push(row));
        if let Some((idle, registered)) = self.ours.pipeline_kib {
            let what = "memory of a pipeline before its ApplicationMaster's first call";
            table.push(Row::new(what, Unit::Kib, idle));
            let what = "memory of a registered ApplicationMaster with its connections";
            table.push(Row::new(what, Unit::Kib, registered));
        }
        format!(
            "\nlimit of what the AMRMProxy adds: a loopback round trip\nadded: difference to the \
             same call made to the ResourceManager itself right before or after\ntimes: p50 / p99 \
             (number of samples); the longest, named max, where there are fewer than 100\n\n{}",
            table.render()
        )
    }

    /// Adds the lines of calls while an exporter scrapes.
    fn scraped(&self, table: &mut Table) {
        let hadoops = self.hadoops.as_ref();
        let of = |what: &str, times: fn(&Figures) -> &Samples| {
            let call = format!("`allocate` without asks, {what}");
            Row::new(call, Unit::Ms, times(&self.ours)).java(hadoops.map(times))
        };
        table.push(of("in turns with", |f| &f.scraped.without));
        table.push(of("those while an exporter scrapes the node", |f| {
            &f.scraped.with
        }));
        let rate = Row::new("its scrapes", Unit::PerSecond, self.ours.scraped.rate);
        table.push(rate.java(hadoops.map(|f| f.scraped.rate)));
    }

    /// Adds the lines of calls with long lists.
    fn long_lists(&self, table: &mut Table) {
        let java = |at: usize| self.hadoops.as_ref().map(|f| &f.long_lists[at]);
        for (at, nodes) in LONG_LISTS.into_iter().enumerate() {
            let (pairs, processor_ms) = &self.ours.long_lists[at];
            let call = format!("`allocate` without asks, a list of {nodes} nodes");
            let added = format!("added by the AMRMProxy to {call}");
            let added = Row::new(added, Unit::Ms, &pairs.added).limit(&self.round_trip);
            table.push(added.java(java(at).map(|(pairs, _)| &pairs.added)));
            let processor = format!("CPU time of the node: {call}");
            let processor = Row::new(processor, Unit::Ms, *processor_ms);
            table.push(processor.java(java(at).map(|(_, ms)| *ms)));
        }
    }

    /// Adds the lines of one master's calls.
    fn calls(&self, table: &mut Table, who: &str, of: fn(&Figures) -> &Calls, in_readme: bool) {
        for (what, pairs, processor_ms, readme) in KINDS {
            let times = |what: String, times: fn(&Pairs) -> &Samples| {
                let of = |figures| times(pairs(of(figures)));
                Row::new(what, Unit::Ms, of(&self.ours)).java(self.hadoops.as_ref().map(of))
            };
            let show = |row: Row, flag: bool| if flag { row.in_readme() } else { row };
            let total = times(format!("{what}, {who}"), |pairs| &pairs.proxied);
            table.push(show(total, in_readme && readme[0]));
            let added = format!("added by the AMRMProxy to {what}, {who}");
            let added = times(added, |pairs| &pairs.added).limit(&self.round_trip);
            table.push(show(added, in_readme && readme[1]));
            let direct = format!("the ResourceManager alone: {what}, {who}");
            table.push(times(direct, |pairs| &pairs.direct));
            let of = |figures| processor_ms(of(figures));
            let processor = format!("CPU time of the node: {what}, {who}");
            let processor = Row::new(processor, Unit::Ms, of(&self.ours));
            table.push(processor.java(self.hadoops.as_ref().map(of)));
        }
    }
}
