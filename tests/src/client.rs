//! A client of a ResourceManager: `ApplicationClientProtocol` spoken by this workspace's own library, so that a test need
//! not start a JVM to submit something, and may say what no client of Hadoop would.

use std::net::{Ipv4Addr, SocketAddr};

use records::{ApplicationId, Resource};
use tokio::runtime::Runtime;
use wire::proto::hadoop_yarn::{
    ApplicationReportProto, ApplicationSubmissionContextProto, GetApplicationReportRequestProto,
    GetNewApplicationRequestProto, SubmitApplicationRequestProto,
};
use wire::protocol::application_client::{
    self, GetApplicationReport, GetNewApplication, SubmitApplication,
};
use wire::rpc::{ClientAuth, ClientOptions, Method, RpcClient, RpcError};

use crate::lab::Lab;
use test_support::{LaunchContext, current_user};

/// A connection of the user that the tests run as.
#[derive(Debug)]
pub struct Client {
    rpc: RpcClient,
    // Dropped last: the connection is a task of it.
    runtime: Runtime,
}

impl Client {
    /// Connects to the port for clients of a ResourceManager on this machine.
    ///
    /// # Panics
    /// When nobody listens there.
    #[must_use]
    pub fn connect(port: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("cannot start a runtime: {error}"));
        let auth = ClientAuth::Simple {
            user: current_user(),
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
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
    /// What the ResourceManager says against it, or why it could not be asked.
    pub fn call<M: Method>(&self, request: &M::Request) -> Result<M::Response, RpcError> {
        self.runtime.block_on(self.rpc.call::<M>(request))
    }

    /// A fresh application id.
    ///
    /// # Panics
    /// When there is none.
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
    /// Why it is refused.
    pub fn submit(&self, submission: ApplicationSubmissionContextProto) -> Result<(), RpcError> {
        let request = SubmitApplicationRequestProto {
            application_submission_context: Some(submission),
        };
        self.call::<SubmitApplication>(&request).map(drop)
    }

    /// How an application is.
    ///
    /// # Errors
    /// Why that is not known.
    pub fn report(&self, id: ApplicationId) -> Result<ApplicationReportProto, RpcError> {
        let request = GetApplicationReportRequestProto {
            application_id: Some(id.into()),
        };
        let answer = self.call::<GetApplicationReport>(&request)?;
        Ok(answer.application_report.unwrap_or_default())
    }
}

/// An application of one container and no program of Hadoop's: its ApplicationMaster is a shell command. That makes it
/// the quickest way to a guaranteed container.
#[derive(Debug, Clone)]
pub struct ShellApplication<'a> {
    /// The command.
    pub command: &'a str,
    /// What its container asks for, in MiB.
    pub memory_mb: u32,
}

impl ShellApplication<'_> {
    /// Submits it and returns its id. It never registers, so the ResourceManager shows it as ACCEPTED while it runs and FAILED
    /// when its command has ended.
    ///
    /// # Panics
    /// When it is refused.
    #[must_use]
    #[track_caller]
    pub fn submit(&self, lab: &Lab) -> String {
        let client = Client::connect(lab.rm_ports().client);
        let id = client.new_application();
        let command = format!("{} 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr", self.command);
        let submission = ApplicationSubmissionContextProto {
            application_id: Some(id.into()),
            application_name: Some("shell".to_owned()),
            application_type: Some("SHELL".to_owned()),
            am_container_spec: Some(LaunchContext::command(&command).into_proto()),
            max_app_attempts: Some(1),
            resource: Some(Resource::new(u64::from(self.memory_mb), 1).into()),
            ..ApplicationSubmissionContextProto::default()
        };
        client
            .submit(submission)
            .unwrap_or_else(|error| panic!("{id} is refused: {error}"));
        id.to_string()
    }
}
