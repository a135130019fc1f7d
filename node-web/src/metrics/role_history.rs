//! Series of role histories. Names of services, roles and users are no labels: tenants choose them.

use std::sync::Arc;

use amrm_proxy::observe::HistoryEvent;
use amrm_proxy::role_history::view::RoleHistoryView;
use node_view::outcome::CallOutcome;
use prometheus::{IntCounter, IntGauge};

use super::family::{Maker, PerLabel};
use super::labels::PlacedOn;

/// See the help texts.
#[derive(Debug)]
pub(super) struct RoleHistorySeries {
    placed: PerLabel<PlacedOn, IntCounter>,
    escalations: IntCounter,
    saves: PerLabel<CallOutcome, IntCounter>,
    files_skipped: IntCounter,
    services: IntGauge,
    outstanding: IntGauge,
    excluded: IntGauge,
}

impl RoleHistorySeries {
    pub(super) fn new(maker: &Maker<'_>) -> Self {
        Self {
            placed: maker.counters(
                "nm_agent_role_history_containers_placed_total",
                "Containers allocated to services with a role history, by whether their role had run on the node before.",
            ),
            escalations: maker.counter(
                "nm_agent_role_history_escalations_total",
                "Asks for a node of a role history that were relaxed to any node, as that node did not answer in time.",
            ),
            saves: maker.counters(
                "nm_agent_role_history_saves_total",
                "Saves of role histories.",
            ),
            files_skipped: maker.counter(
                "nm_agent_role_history_files_skipped_total",
                "Files of role histories that could not be read, so that an older one was tried.",
            ),
            services: maker.gauge(
                "nm_agent_role_history_services",
                "ApplicationMasters with a role history that speak to the RM through this node.",
            ),
            outstanding: maker.gauge(
                "nm_agent_role_history_outstanding_asks",
                "Asks of services with a role history that have no answer yet.",
            ),
            excluded: maker.gauge(
                "nm_agent_role_history_excluded_nodes",
                "Nodes that are left out of asks because a role failed there too often, counted for each role.",
            ),
        }
    }

    pub(super) fn observe(&self, event: HistoryEvent) {
        match event {
            HistoryEvent::Placed { on_history: true } => self.placed.of(PlacedOn::History).inc(),
            HistoryEvent::Placed { on_history: false } => self.placed.of(PlacedOn::Other).inc(),
            HistoryEvent::Escalated => self.escalations.inc(),
            HistoryEvent::Saved => self.saves.of(CallOutcome::Ok).inc(),
            HistoryEvent::SaveFailed => self.saves.of(CallOutcome::Error).inc(),
            HistoryEvent::FileSkipped => self.files_skipped.inc(),
        }
    }

    /// Brings the gauges up to date.
    pub(super) fn set(&self, services: &[Arc<RoleHistoryView>]) {
        let gauge = |gauge: &IntGauge, value: usize| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        let roles = services.iter().flat_map(|view| &view.roles);
        gauge(&self.services, services.len());
        gauge(
            &self.outstanding,
            services.iter().map(|view| view.asks_total).sum(),
        );
        gauge(&self.excluded, roles.map(|role| role.nodes_excluded).sum());
    }
}

#[cfg(test)]
mod tests {
    use amrm_proxy::observe::{Observation, Observer as _};
    use amrm_proxy::role_history::view::{HistorySource, RoleView};

    use super::*;
    use crate::metrics::{Metrics, ProxyReading};

    /// Returns the value of a series.
    fn value(metrics: &Metrics, series: &str) -> u32 {
        let text = metrics.encode();
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value
            .unwrap_or_else(|| panic!("no {series}"))
            .parse()
            .unwrap()
    }

    #[test]
    fn each_event_raises_one_counter() {
        let metrics = Metrics::new();
        for (event, series) in [
            (
                HistoryEvent::Placed { on_history: true },
                "containers_placed_total{node=\"history\"}",
            ),
            (
                HistoryEvent::Placed { on_history: false },
                "containers_placed_total{node=\"other\"}",
            ),
            (HistoryEvent::Escalated, "escalations_total"),
            (HistoryEvent::Saved, "saves_total{outcome=\"ok\"}"),
            (HistoryEvent::SaveFailed, "saves_total{outcome=\"error\"}"),
            (HistoryEvent::FileSkipped, "files_skipped_total"),
        ] {
            let series = format!("nm_agent_role_history_{series}");
            assert_eq!(value(&metrics, &series), 0, "{series}");
            metrics.observe(&Observation::History(event));
            assert_eq!(value(&metrics, &series), 1, "{series}");
        }
    }

    #[test]
    fn gauges_are_sums_over_services_and_name_none() {
        let role = |nodes_excluded| RoleView {
            nodes_excluded,
            ..RoleView::default()
        };
        let view = Arc::new(RoleHistoryView {
            service: "a-name-of-a-tenant".to_owned(),
            user: "a-user".to_owned(),
            attempt: test_support::ids::application(7).attempt(1),
            is_guaranteed: false,
            source: HistorySource::New,
            saved_at: None,
            nodes: 5,
            roles: vec![role(2), role(1)],
            roles_total: 2,
            asks: Vec::new(),
            asks_total: 4,
            placements: Vec::new(),
        });
        let metrics = Metrics::new();
        metrics.watch_proxy(move || ProxyReading {
            role_histories: vec![Arc::clone(&view), Arc::clone(&view)],
            ..ProxyReading::default()
        });
        let of = |name: &str| value(&metrics, &format!("nm_agent_role_history_{name}"));
        assert_eq!(
            (of("services"), of("outstanding_asks"), of("excluded_nodes")),
            (2, 8, 6)
        );
        let text = metrics.encode();
        assert!(
            !text.contains("tenant") && !text.contains("a-user"),
            "{text}"
        );
    }
}
