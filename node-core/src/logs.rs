//! Aggregation of logs: what the core orders of it, and its outcomes; and who may see them here.

use std::collections::{BTreeMap, BTreeSet};

use localize::UserName;
use log_aggregation::aggregated_log::{AccessType, Acls};
use log_aggregation::policy::{ContainerEnd, Policy};
use log_aggregation::selection::{LogAggregationContext, Selection};
use log_aggregation::upload::Uploaded;
use log_aggregation::{Application, Outcome};
use node_view::java_date::java_date_of;
use node_view::outcome::CallOutcome;
use node_view::snapshot::{AggregatedFile, AggregatedLogs};
use prost::Message;
use records::{ApplicationId, ContainerId, ContainerName, MonoMillis, Now};
use wire::proto::hadoop_yarn::LogAggregationContextProto;

use super::{Core, Effect, Observed, StoreOrder};
use crate::aggregated::Aggregated;
use crate::end::{End, Part};
use crate::log_reports::{Cycle, LogReports};
use crate::order::LogOrder;
use crate::recovery::{AclRecord, ApplicationRecord};

/// Reads an application's wishes; one without any, or with bytes that are no message, has none. An
/// absent pattern is an empty one, whatever default the message has for it: Hadoop asks whether the
/// field is there (`LogAggregationContextPBImpl`).
fn read_context(context: Option<&[u8]>) -> LogAggregationContext {
    let context = context.map(LogAggregationContextProto::decode);
    let Some(context) = context.and_then(Result::ok) else {
        return LogAggregationContext::default();
    };
    LogAggregationContext {
        include: context.include_pattern.unwrap_or_default(),
        exclude: context.exclude_pattern.unwrap_or_default(),
        rolled_include: context.rolled_logs_include_pattern.unwrap_or_default(),
        rolled_exclude: context.rolled_logs_exclude_pattern.unwrap_or_default(),
        policy_class: context
            .log_aggregation_policy_class_name
            .unwrap_or_default(),
        policy_parameters: context
            .log_aggregation_policy_parameters
            .unwrap_or_default(),
    }
}

/// Logs of the node's applications.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// Applications whose log aggregation has begun, with the policies that choose containers.
    begun: BTreeMap<ApplicationId, Policy>,
    /// Containers of an earlier agent of which no logs are uploaded, until the aggregation of their
    /// application begins.
    settled: BTreeMap<ApplicationId, BTreeSet<ContainerName>>,
    /// Reports on uploads.
    pub(super) reports: LogReports,
    /// Logs of running containers that were uploaded.
    pub(super) uploaded: Aggregated,
}

impl Logs {
    /// Takes the containers of an earlier agent of which no logs are uploaded.
    pub(super) fn settle(&mut self, settled: BTreeMap<ApplicationId, BTreeSet<ContainerName>>) {
        self.settled = settled;
    }

    /// Forgets an application whose logs are deleted.
    pub(super) fn forget(&mut self, id: &ApplicationId) {
        self.begun.remove(id);
        self.settled.remove(id);
        self.uploaded.forget(id);
    }
}

impl Part for Logs {
    /// Stores that nothing of a container is to be uploaded, if the application's policy leaves it
    /// out and the next agent could not tell from the container's name.
    fn ended(&mut self, end: &End<'_>, effects: &mut Vec<Effect>) {
        let Some((facts, _)) = &end.token else {
            return;
        };
        let id = end.id();
        let of_logs = ContainerEnd {
            id: id.name(),
            role: facts.role,
            exit_status: end.completion.exit_status,
        };
        let policy = self.begun.get(&id.application_id());
        let is_left_out = policy.is_some_and(|policy| {
            !policy.takes(&of_logs) && policy.takes(&ContainerEnd::unknown(of_logs.id))
        });
        if is_left_out && end.remembers {
            effects.push(Effect::Store(StoreOrder::LogsSettled(of_logs.id)));
        }
        if end.aggregates_logs {
            effects.push(Effect::Logs(LogOrder::ContainerEnded(of_logs)));
        }
    }
}

impl Core {
    fn order_logs(&mut self, order: LogOrder) {
        if self.config.log_aggregation.is_some() {
            self.effects.push(Effect::Logs(order));
        }
    }

    /// Begins the aggregation of an application: its first container's token and launch context
    /// say how, those of later ones do not (as in Hadoop). `context`: bytes of the token's
    /// `LogAggregationContextProto`.
    pub(super) fn begin_logs(
        &mut self,
        id: ApplicationId,
        user: UserName,
        context: Option<&[u8]>,
        acls: Acls,
    ) {
        let Some(logs) = self.config.log_aggregation else {
            return;
        };
        let selection = Selection::new(read_context(context), logs.policy);
        self.logs.begun.insert(id, selection.policy());
        let settled = self.logs.settled.remove(&id).unwrap_or_default();
        self.order_logs(LogOrder::Begin(Box::new(Application {
            id,
            user,
            acls,
            selection,
            settled,
        })));
    }

    /// Begins the aggregation of an application that an earlier agent had, running or ending, so
    /// that its logs are uploaded before they are deleted.
    pub(super) fn resume_logs(&mut self, id: ApplicationId) {
        if self.logs.begun.contains_key(&id) {
            return;
        }
        let Some(record) = self.recorder.application(&id) else {
            return;
        };
        let (context, acls) = (record.log_context.clone(), acls_of(record));
        if let Some(user) = self.applications.get(&id).map(|known| known.user.clone()) {
            self.begin_logs(id, user, context.as_deref(), acls);
        }
    }

    /// Keeps who may see the application's logs on this node. A list beyond the user's share of the
    /// memory is left out, so that nobody but user and administrators sees them.
    pub(super) fn keep_view_list(&mut self, id: ApplicationId, user: &UserName, acls: &Acls) {
        let mut lists = acls.iter();
        let Some((_, list)) = lists.find(|(access, _)| *access == AccessType::ViewApp) else {
            return;
        };
        match self.contexts.hold_list(user, list) {
            Ok(list) => self.applications.set_view_list(&id, list),
            Err(error) => {
                tracing::warn!(application = %id, %error, "an access control list is left out");
            }
        }
    }

    pub(super) fn logs_of_started(&mut self, id: ContainerId) {
        self.resume_logs(id.application_id());
        if let Some(container) = self.containers.get(&id) {
            let role = container.facts.role;
            self.order_logs(LogOrder::ContainerStarted(id.name(), role));
        }
    }

    /// Orders the last upload of an application. Returns when its logs are to be deleted; `None`:
    /// once they are uploaded.
    pub(super) fn finish_logs(&mut self, id: ApplicationId, now: Now) -> Option<MonoMillis> {
        if self.config.log_aggregation.is_none() {
            return Some(now.mono + self.config.log_retain_ms);
        }
        self.resume_logs(id);
        self.order_logs(LogOrder::Finish(id));
        None
    }

    /// Handles the outcome of an upload. Logs that could not be uploaded, or that are to be kept,
    /// stay as long as without aggregation; Hadoop keeps them for good.
    pub(super) fn logs_uploaded(&mut self, outcome: &Outcome, now: Now) {
        let Some(logs) = self.config.log_aggregation else {
            return;
        };
        let id = outcome.application;
        let cycle = match &outcome.result {
            Ok(uploaded) if uploaded.files == 0 => Cycle::Nothing,
            Ok(uploaded) => {
                let (files, bytes) = (uploaded.files, uploaded.bytes);
                tracing::info!(application = %id, files, bytes, "logs uploaded");
                self.observe(Observed::LogsUploaded {
                    outcome: CallOutcome::Ok,
                    files,
                    bytes,
                });
                self.remember_upload(id, uploaded);
                Cycle::Uploaded
            }
            Err(error) => {
                let error = records::error_chain(error);
                tracing::warn!(application = %id, error, gives_up = outcome.is_last, "logs not uploaded");
                self.observe(Observed::LogsUploaded {
                    outcome: CallOutcome::Error,
                    files: 0,
                    bytes: 0,
                });
                Cycle::Failed
            }
        };
        let node = log_aggregation::remote::node_name(&self.condition.about().node_id);
        let time = java_date_of(now.wall, logs.utc_offset);
        let about = (node.as_str(), time.as_str());
        self.logs
            .reports
            .add(id, cycle, outcome.is_last, about, now.mono);
        if outcome.is_last {
            let keep = cycle == Cycle::Failed || !logs.local_cleanup;
            let retain_ms = if keep { self.config.log_retain_ms } else { 0 };
            self.applications.logs_done(&id, now.mono + retain_ms);
            self.forget_tokens(id);
            self.remember_application(id, now);
        }
    }

    /// Remembers which files of an application's containers are where, as long as it is known.
    fn remember_upload(&mut self, id: ApplicationId, uploaded: &Uploaded) {
        let Some(remote) = &uploaded.remote else {
            return;
        };
        if self.applications.get(&id).is_none() {
            return;
        }
        let files = uploaded.listed.iter().map(|file| AggregatedFile {
            container: file.container,
            name: file.name.clone(),
            length: file.length,
        });
        let logs = AggregatedLogs {
            name: remote.name.clone(),
            uploaded_at: remote.completed_at,
            files: files.collect(),
        };
        self.logs.uploaded.add(id, logs, &remote.removed);
    }
}

/// Returns the rights on an application.
pub(super) fn acls_of(record: &ApplicationRecord) -> Acls {
    let acl = |acl: &AclRecord| {
        let access = if acl.modify {
            AccessType::ModifyApp
        } else {
            AccessType::ViewApp
        };
        (access, acl.list.clone())
    };
    record.acls.iter().map(acl).collect()
}
