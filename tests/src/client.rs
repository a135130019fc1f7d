//! A client of a ResourceManager over this workspace's own library: submits without starting a JVM,
//! and can send requests that no Hadoop client sends (ApplicationClientProtocol).

use std::net::{Ipv4Addr, SocketAddr};

use records::{ApplicationId, Resource};
use tokio::runtime::Runtime;
use wire::proto::hadoop_yarn::{
    ApplicationReportProto, ApplicationSubmissionContextProto, GetApplicationReportRequestProto,
    GetNewApplicationRequestProto, ResourceRequestProto, SubmitApplicationRequestProto,
};
use wire::protocol::application_client::{
    self, GetApplicationReport, GetNewApplication, SubmitApplication,
};
use wire::rpc::{ClientAuth, ClientOptions, Method, RpcClient, RpcError};

use crate::lab::Lab;
use test_support::{LaunchContext, current_user};

/// A connection as the user that the tests run as.
#[derive(Debug)]
pub struct Client {
    rpc: RpcClient,
    // Dropped last: the connection is one of its tasks.
    runtime: Runtime,
}

impl Client {
    /// Connects to the client port of a ResourceManager on this machine.
    ///
    /// # Panics
    /// When nothing listens there.
    #[must_use]
    pub fn connect(port: u16) -> Self {
        Self::connect_to((Ipv4Addr::LOCALHOST, port).into())
    }

    /// Connects to the client port of a ResourceManager.
    ///
    /// # Panics
    /// When nothing listens there.
    #[must_use]
    pub fn connect_to(address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("cannot start a runtime: {error}"));
        let auth = ClientAuth::Simple {
            user: current_user(),
        };
        let options = ClientOptions::default();
        let connecting = RpcClient::connect(address, application_client::PROTOCOL, auth, &options);
        let rpc = runtime
            .block_on(connecting)
            .unwrap_or_else(|error| panic!("no ResourceManager at {address}: {error}"));
        Self { rpc, runtime }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// When the ResourceManager refuses or does not answer.
    pub fn call<M: Method>(&self, request: &M::Request) -> Result<M::Response, RpcError> {
        self.runtime.block_on(self.rpc.call::<M>(request))
    }

    /// Asks for a new application id.
    ///
    /// # Panics
    /// When the ResourceManager gives none.
    #[must_use]
    #[track_caller]
    pub fn new_application(&self) -> ApplicationId {
        let answer = self
            .call::<GetNewApplication>(&GetNewApplicationRequestProto {})
            .unwrap_or_else(|error| panic!("no application id: {error}"));
        let id = answer.application_id.expect("an answer has an id");
        ApplicationId::try_from(&id).expect("an id in an answer is one")
    }

    /// Submits an application.
    ///
    /// # Errors
    /// When the ResourceManager refuses.
    pub fn submit(&self, submission: ApplicationSubmissionContextProto) -> Result<(), RpcError> {
        let request = SubmitApplicationRequestProto {
            application_submission_context: Some(submission),
        };
        self.call::<SubmitApplication>(&request).map(drop)
    }

    /// Returns the report of an application.
    ///
    /// # Errors
    /// When the ResourceManager refuses.
    pub fn report(&self, id: ApplicationId) -> Result<ApplicationReportProto, RpcError> {
        let request = GetApplicationReportRequestProto {
            application_id: Some(id.into()),
        };
        let answer = self.call::<GetApplicationReport>(&request)?;
        Ok(answer.application_report.unwrap_or_default())
    }
}

/// An application of one container whose ApplicationMaster is a shell command: the quickest way to
/// a guaranteed container.
#[derive(Debug, Clone)]
pub struct ShellApplication<'a> {
    /// Shell command of the container.
    pub command: &'a str,
    /// Size of the container, in MiB.
    pub memory_mb: u32,
}

impl ShellApplication<'_> {
    /// Submits the application and returns its id. It never registers: the ResourceManager shows it
    /// as ACCEPTED while it runs and as FAILED when its command has ended.
    ///
    /// # Panics
    /// When the ResourceManager refuses.
    #[must_use]
    #[track_caller]
    pub fn submit(&self, lab: &Lab) -> String {
        self.submit_asking(lab, Vec::new())
    }

    /// Submits the application for a container on this host, which no other is to run.
    ///
    /// # Panics
    /// When the ResourceManager refuses.
    #[must_use]
    #[track_caller]
    pub fn submit_on(&self, lab: &Lab, host: &str) -> String {
        let line = |name: &str| ResourceRequestProto {
            priority: Some(0.into()),
            resource_name: Some(name.to_owned()),
            capability: Some(Resource::new(u64::from(self.memory_mb), 1).into()),
            num_containers: Some(1),
            relax_locality: Some(name == host),
            ..ResourceRequestProto::default()
        };
        self.submit_asking(lab, [host, "/default-rack", "*"].map(line).into())
    }

    #[track_caller]
    fn submit_asking(&self, lab: &Lab, asks: Vec<ResourceRequestProto>) -> String {
        let client = Client::connect_to(lab.rm_client_address());
        let id = client.new_application();
        let command = format!("{} 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr", self.command);
        let submission = ApplicationSubmissionContextProto {
            application_id: Some(id.into()),
            application_name: Some("shell".to_owned()),
            application_type: Some("SHELL".to_owned()),
            am_container_spec: Some(LaunchContext::command(&command).into_proto()),
            max_app_attempts: Some(1),
            resource: Some(Resource::new(u64::from(self.memory_mb), 1).into()),
            am_container_resource_request: asks,
            ..ApplicationSubmissionContextProto::default()
        };
        client
            .submit(submission)
            .unwrap_or_else(|error| panic!("{id} is refused: {error}"));
        id.to_string()
    }
}
