//! Series of one name with their children resolved once, so that counting is an addition and not a
//! look-up.

use std::marker::PhantomData;

use prometheus::core::Collector;
use prometheus::{
    Counter, CounterVec, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter,
    IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::labels::Label;

/// Every name, label and help here is a constant of this crate, and a test makes them all.
const CONSTANT: &str = "a metric's constant name, help and labels are valid and used once";

/// Children of a family, by the value of its label.
#[derive(Debug)]
pub(super) struct PerLabel<L, M> {
    children: Vec<M>,
    label: PhantomData<L>,
}

impl<L: Label, M> PerLabel<L, M> {
    fn new(child: impl Fn(&'static str) -> M) -> Self {
        Self {
            children: L::ALL.iter().map(|label| child(label.value())).collect(),
            label: PhantomData,
        }
    }

    /// The child of this label value.
    pub(super) fn of(&self, label: impl Into<L>) -> &M {
        &self.children[label.into().index()]
    }
}

/// Children of a family, by the values of its two labels.
#[derive(Debug)]
pub(super) struct PerPair<A, B, M> {
    children: Vec<PerLabel<B, M>>,
    label: PhantomData<A>,
}

impl<A: Label, B: Label, M> PerPair<A, B, M> {
    fn new(child: impl Fn(&'static str, &'static str) -> M) -> Self {
        let children = A::ALL
            .iter()
            .map(|a| PerLabel::new(|b| child(a.value(), b)))
            .collect();
        Self {
            children,
            label: PhantomData,
        }
    }

    /// The child of these label values.
    pub(super) fn of(&self, a: A, b: B) -> &M {
        self.children[a.index()].of(b)
    }
}

/// Children of a family, by the values of its three labels, made when first asked for: until then
/// there is no such series.
#[derive(Debug)]
pub(super) struct PerTriple<A, B, C> {
    family: CounterVec,
    labels: PhantomData<(A, B, C)>,
}

impl<A: Label, B: Label, C: Label> PerTriple<A, B, C> {
    /// The child of these label values.
    pub(super) fn of(&self, a: A, b: B, c: C) -> Counter {
        let values = [a.value(), b.value(), c.value()];
        self.family.with_label_values(&values)
    }
}

/// Makes series and puts them into the registry.
pub(super) struct Maker<'a>(pub(super) &'a Registry);

impl Maker<'_> {
    fn register<C: Collector + Clone + 'static>(&self, collector: &C) {
        self.0
            .register(Box::new(collector.clone()))
            .expect(CONSTANT);
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        let counter = IntCounter::new(name, help).expect(CONSTANT);
        self.register(&counter);
        counter
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        let gauge = IntGauge::new(name, help).expect(CONSTANT);
        self.register(&gauge);
        gauge
    }

    pub(super) fn float_gauge(&self, name: &str, help: &str) -> Gauge {
        let gauge = Gauge::new(name, help).expect(CONSTANT);
        self.register(&gauge);
        gauge
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        let histogram = Histogram::with_opts(opts).expect(CONSTANT);
        self.register(&histogram);
        histogram
    }

    /// Makes a family of counters whose labels have values that a configuration names.
    pub(super) fn named_counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        let family = IntCounterVec::new(Opts::new(name, help), labels).expect(CONSTANT);
        self.register(&family);
        family
    }

    /// Makes a family of gauges whose label has values that a configuration names.
    pub(super) fn named_gauges(&self, name: &str, help: &str, label: &str) -> IntGaugeVec {
        let family = IntGaugeVec::new(Opts::new(name, help), &[label]).expect(CONSTANT);
        self.register(&family);
        family
    }

    pub(super) fn counters<L: Label>(&self, name: &str, help: &str) -> PerLabel<L, IntCounter> {
        let family = IntCounterVec::new(Opts::new(name, help), &[L::NAME]).expect(CONSTANT);
        self.register(&family);
        PerLabel::new(|value| family.with_label_values(&[value]))
    }

    pub(super) fn float_counters<L: Label>(&self, name: &str, help: &str) -> PerLabel<L, Counter> {
        let family = CounterVec::new(Opts::new(name, help), &[L::NAME]).expect(CONSTANT);
        self.register(&family);
        PerLabel::new(|value| family.with_label_values(&[value]))
    }

    pub(super) fn counter_pairs<A: Label, B: Label>(
        &self,
        name: &str,
        help: &str,
    ) -> PerPair<A, B, IntCounter> {
        let family =
            IntCounterVec::new(Opts::new(name, help), &[A::NAME, B::NAME]).expect(CONSTANT);
        self.register(&family);
        PerPair::new(|a, b| family.with_label_values(&[a, b]))
    }

    pub(super) fn float_counter_pairs<A: Label, B: Label>(
        &self,
        name: &str,
        help: &str,
    ) -> PerPair<A, B, Counter> {
        let family = CounterVec::new(Opts::new(name, help), &[A::NAME, B::NAME]).expect(CONSTANT);
        self.register(&family);
        PerPair::new(|a, b| family.with_label_values(&[a, b]))
    }

    pub(super) fn float_counter_triples<A: Label, B: Label, C: Label>(
        &self,
        name: &str,
        help: &str,
    ) -> PerTriple<A, B, C> {
        let names = [A::NAME, B::NAME, C::NAME];
        let family = CounterVec::new(Opts::new(name, help), &names).expect(CONSTANT);
        self.register(&family);
        PerTriple {
            family,
            labels: PhantomData,
        }
    }

    pub(super) fn gauge_pairs<A: Label, B: Label>(
        &self,
        name: &str,
        help: &str,
    ) -> PerPair<A, B, IntGauge> {
        let family = IntGaugeVec::new(Opts::new(name, help), &[A::NAME, B::NAME]).expect(CONSTANT);
        self.register(&family);
        PerPair::new(|a, b| family.with_label_values(&[a, b]))
    }

    pub(super) fn float_gauges<L: Label>(&self, name: &str, help: &str) -> PerLabel<L, Gauge> {
        let family = GaugeVec::new(Opts::new(name, help), &[L::NAME]).expect(CONSTANT);
        self.register(&family);
        PerLabel::new(|value| family.with_label_values(&[value]))
    }

    pub(super) fn gauges<L: Label>(&self, name: &str, help: &str) -> PerLabel<L, IntGauge> {
        let family = IntGaugeVec::new(Opts::new(name, help), &[L::NAME]).expect(CONSTANT);
        self.register(&family);
        PerLabel::new(|value| family.with_label_values(&[value]))
    }

    pub(super) fn histograms<L: Label>(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
    ) -> PerLabel<L, Histogram> {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        let family = HistogramVec::new(opts, &[L::NAME]).expect(CONSTANT);
        self.register(&family);
        PerLabel::new(|value| family.with_label_values(&[value]))
    }

    /// A gauge that is always 1 and carries texts fixed at start.
    pub(super) fn info(&self, name: &str, help: &str, labels: &[(&str, &str)]) {
        let mut opts = Opts::new(name, help);
        for (label, value) in labels {
            opts = opts.const_label(*label, *value);
        }
        let gauge = IntGauge::with_opts(opts).expect(CONSTANT);
        self.register(&gauge);
        gauge.set(1);
    }
}
