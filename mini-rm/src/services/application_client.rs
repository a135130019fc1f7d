//! ApplicationClientProtocol, for clients. Calls for features that this ResourceManager lacks are
//! refused as not supported: reservations, moves between queues, delegation tokens and the like.

use records::{ApplicationAttemptId, ApplicationId, ContainerId};
use wire::convert::{ConvertError, required};
use wire::exception::{HadoopException, RemoteException};
use wire::proto::hadoop_yarn::{
    GetAllResourceProfilesRequestProto, GetAllResourceProfilesResponseProto,
    GetAllResourceTypeInfoRequestProto, GetAllResourceTypeInfoResponseProto,
    GetApplicationAttemptReportRequestProto, GetApplicationAttemptReportResponseProto,
    GetApplicationAttemptsRequestProto, GetApplicationAttemptsResponseProto,
    GetApplicationReportRequestProto, GetApplicationReportResponseProto,
    GetApplicationsRequestProto, GetApplicationsResponseProto, GetClusterMetricsRequestProto,
    GetClusterMetricsResponseProto, GetClusterNodeLabelsRequestProto,
    GetClusterNodeLabelsResponseProto, GetClusterNodesRequestProto, GetClusterNodesResponseProto,
    GetContainerReportRequestProto, GetContainerReportResponseProto, GetContainersRequestProto,
    GetContainersResponseProto, GetLabelsToNodesRequestProto, GetLabelsToNodesResponseProto,
    GetNewApplicationRequestProto, GetNewApplicationResponseProto, GetNodesToLabelsRequestProto,
    GetNodesToLabelsResponseProto, GetQueueInfoRequestProto, GetQueueInfoResponseProto,
    GetQueueUserAclsInfoRequestProto, GetQueueUserAclsInfoResponseProto,
    KillApplicationRequestProto, KillApplicationResponseProto, QueueAclProto,
    QueueUserAclInfoProto, SubmitApplicationRequestProto, SubmitApplicationResponseProto,
};
use wire::protocol::application_client::ApplicationClientProtocol;
use wire::rpc::Caller;

use crate::core_task::Handle;

/// ApplicationClientProtocol on a handle of the core.
#[derive(Debug)]
pub struct Clients(pub Handle);

/// Reads the application that a request is about.
macro_rules! application_of {
    ($request:expr, $message:literal) => {
        ApplicationId::try_from(required(
            $request.application_id.as_ref(),
            $message,
            "application_id",
        )?)?
    };
}

/// Reads the attempt that a request is about.
macro_rules! attempt_of {
    ($request:expr, $message:literal) => {
        ApplicationAttemptId::try_from(required(
            $request.application_attempt_id.as_ref(),
            $message,
            "application_attempt_id",
        )?)?
    };
}

impl ApplicationClientProtocol for Clients {
    async fn get_new_application(
        &self,
        _caller: &Caller,
        _request: GetNewApplicationRequestProto,
    ) -> Result<GetNewApplicationResponseProto, RemoteException> {
        let new = |core: &mut crate::core::Core, _| GetNewApplicationResponseProto {
            application_id: Some(core.new_application().into()),
            maximum_capability: Some(core.allocation_max().into()),
        };
        Ok(self.0.run(new).await?)
    }

    async fn submit_application(
        &self,
        caller: &Caller,
        request: SubmitApplicationRequestProto,
    ) -> Result<SubmitApplicationResponseProto, RemoteException> {
        let submission = request
            .application_submission_context
            .ok_or(ConvertError::Missing {
                message: "SubmitApplicationRequestProto",
                field: "application_submission_context",
            })?;
        let user = caller.user.clone();
        self.0
            .call(move |core, now| core.submit(submission, &user, now))
            .await?;
        Ok(SubmitApplicationResponseProto {})
    }

    async fn force_kill_application(
        &self,
        caller: &Caller,
        request: KillApplicationRequestProto,
    ) -> Result<KillApplicationResponseProto, RemoteException> {
        let id = application_of!(request, "KillApplicationRequestProto");
        let said = request.diagnostics();
        let why = format!(
            "Application {id} was killed by user {}. {said}",
            caller.user
        );
        let is_done = self
            .0
            .call(move |core, now| core.kill(id, &why, now))
            .await?;
        Ok(KillApplicationResponseProto {
            is_kill_completed: Some(is_done),
        })
    }

    async fn get_application_report(
        &self,
        _caller: &Caller,
        request: GetApplicationReportRequestProto,
    ) -> Result<GetApplicationReportResponseProto, RemoteException> {
        let id = application_of!(request, "GetApplicationReportRequestProto");
        let report = self
            .0
            .call(move |core, _| {
                Ok::<_, crate::refusal::Refusal>(core.application_report(core.application(id)?))
            })
            .await?;
        Ok(GetApplicationReportResponseProto {
            application_report: Some(report),
        })
    }

    async fn get_applications(
        &self,
        _caller: &Caller,
        request: GetApplicationsRequestProto,
    ) -> Result<GetApplicationsResponseProto, RemoteException> {
        let list = move |core: &mut crate::core::Core, _| -> Vec<_> {
            let states: Vec<_> = request.application_states().collect();
            let limit = request.limit.and_then(|limit| usize::try_from(limit).ok());
            core.applications()
                .map(|application| core.application_report(application))
                .filter(|report| {
                    states.is_empty() || states.contains(&report.yarn_application_state())
                })
                .filter(|report| is_listed(&request.application_types, report.application_type()))
                .filter(|report| is_listed(&request.users, report.user()))
                .take(limit.unwrap_or(usize::MAX))
                .collect()
        };
        Ok(GetApplicationsResponseProto {
            applications: self.0.run(list).await?,
        })
    }

    async fn get_application_attempt_report(
        &self,
        _caller: &Caller,
        request: GetApplicationAttemptReportRequestProto,
    ) -> Result<GetApplicationAttemptReportResponseProto, RemoteException> {
        let id = attempt_of!(request, "GetApplicationAttemptReportRequestProto");
        let report = self.0.call(move |core, _| core.attempt_report(id)).await?;
        Ok(GetApplicationAttemptReportResponseProto {
            application_attempt_report: Some(report),
        })
    }

    async fn get_application_attempts(
        &self,
        _caller: &Caller,
        request: GetApplicationAttemptsRequestProto,
    ) -> Result<GetApplicationAttemptsResponseProto, RemoteException> {
        let id = application_of!(request, "GetApplicationAttemptsRequestProto");
        Ok(GetApplicationAttemptsResponseProto {
            application_attempts: self.0.call(move |core, _| core.attempt_reports(id)).await?,
        })
    }

    async fn get_containers(
        &self,
        _caller: &Caller,
        request: GetContainersRequestProto,
    ) -> Result<GetContainersResponseProto, RemoteException> {
        let id = attempt_of!(request, "GetContainersRequestProto");
        Ok(GetContainersResponseProto {
            containers: self
                .0
                .run(move |core, _| core.container_reports(id))
                .await?,
        })
    }

    async fn get_container_report(
        &self,
        _caller: &Caller,
        request: GetContainerReportRequestProto,
    ) -> Result<GetContainerReportResponseProto, RemoteException> {
        const MESSAGE: &str = "GetContainerReportRequestProto";
        let id = required(request.container_id.as_ref(), MESSAGE, "container_id")?;
        let id = ContainerId::try_from(id)?;
        let report = self
            .0
            .call(move |core, _| core.report_of_container(id))
            .await?;
        Ok(GetContainerReportResponseProto {
            container_report: Some(report),
        })
    }

    // No node has labels. Clients that list nodes ask for them all the same.

    async fn get_cluster_node_labels(
        &self,
        _caller: &Caller,
        _request: GetClusterNodeLabelsRequestProto,
    ) -> Result<GetClusterNodeLabelsResponseProto, RemoteException> {
        Ok(GetClusterNodeLabelsResponseProto::default())
    }

    async fn get_node_to_labels(
        &self,
        _caller: &Caller,
        _request: GetNodesToLabelsRequestProto,
    ) -> Result<GetNodesToLabelsResponseProto, RemoteException> {
        Ok(GetNodesToLabelsResponseProto::default())
    }

    async fn get_labels_to_nodes(
        &self,
        _caller: &Caller,
        _request: GetLabelsToNodesRequestProto,
    ) -> Result<GetLabelsToNodesResponseProto, RemoteException> {
        Ok(GetLabelsToNodesResponseProto::default())
    }

    async fn get_cluster_metrics(
        &self,
        _caller: &Caller,
        _request: GetClusterMetricsRequestProto,
    ) -> Result<GetClusterMetricsResponseProto, RemoteException> {
        Ok(GetClusterMetricsResponseProto {
            cluster_metrics: Some(self.0.run(|core, _| core.cluster_metrics()).await?),
        })
    }

    async fn get_cluster_nodes(
        &self,
        _caller: &Caller,
        request: GetClusterNodesRequestProto,
    ) -> Result<GetClusterNodesResponseProto, RemoteException> {
        let states: Vec<_> = request.node_states().collect();
        Ok(GetClusterNodesResponseProto {
            node_reports: self
                .0
                .run(move |core, _| core.node_reports(&states))
                .await?,
        })
    }

    async fn get_queue_info(
        &self,
        _caller: &Caller,
        request: GetQueueInfoRequestProto,
    ) -> Result<GetQueueInfoResponseProto, RemoteException> {
        let with_children = request.include_child_queues() || request.recursive();
        let find = move |core: &mut crate::core::Core, _| {
            core.queue_info(request.queue_name(), with_children)
        };
        Ok(GetQueueInfoResponseProto {
            queue_info: self.0.run(find).await?,
        })
    }

    async fn get_queue_user_acls(
        &self,
        _caller: &Caller,
        _request: GetQueueUserAclsInfoRequestProto,
    ) -> Result<GetQueueUserAclsInfoResponseProto, RemoteException> {
        // Every user may do everything: access control is not implemented.
        let all = [
            QueueAclProto::QaclSubmitApplications,
            QueueAclProto::QaclAdministerQueue,
        ];
        let queues = ["root", crate::core::QUEUE].map(|name| QueueUserAclInfoProto {
            queue_name: Some(name.to_owned()),
            user_acls: all.map(Into::into).to_vec(),
        });
        Ok(GetQueueUserAclsInfoResponseProto {
            queue_user_acls: queues.to_vec(),
        })
    }

    async fn get_resource_profiles(
        &self,
        _caller: &Caller,
        _request: GetAllResourceProfilesRequestProto,
    ) -> Result<GetAllResourceProfilesResponseProto, RemoteException> {
        // Hadoop's default answer; DistributedShell fails on any other exception.
        Err(RemoteException::new(
            HadoopException::YarnFeatureNotEnabled,
            "Resource profile is not enabled",
        ))
    }

    async fn get_resource_type_info(
        &self,
        _caller: &Caller,
        _request: GetAllResourceTypeInfoRequestProto,
    ) -> Result<GetAllResourceTypeInfoResponseProto, RemoteException> {
        Ok(GetAllResourceTypeInfoResponseProto {
            resource_type_info: self.0.run(|core, _| core.resource_types()).await?,
        })
    }
}

/// Returns whether a filter lets a value pass; an empty filter lets every value pass.
fn is_listed(wanted: &[String], value: &str) -> bool {
    wanted.is_empty() || wanted.iter().any(|wanted| wanted == value)
}
