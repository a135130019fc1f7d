//! What clients ask for that cannot be: each refusal has the class that Hadoop's clients decide on.

use std::net::SocketAddr;

use prost::Message as _;
use records::{ApplicationId, Resource};
use tests::client::Client;
use tokio_util::sync::CancellationToken;
use wire::exception::HadoopException;
use wire::proto::hadoop_yarn::{
    ApplicationIdProto, ApplicationSubmissionContextProto, ContainerLaunchContextProto,
    GetApplicationReportRequestProto, KillApplicationRequestProto, ResourceProto,
    SubmitApplicationRequestProto,
};
use wire::protocol::application_client::{
    ForceKillApplication, GetApplicationReport, SubmitApplication,
};
use wire::rpc::{Method, RpcError};

use crate::mini_rm::distributed::{runtime, start_rm};

/// The largest container, as Hadoop's default has it.
const LARGEST: Resource = Resource::new(8192, 4);

/// A ResourceManager without nodes, and a client of it.
struct Desk {
    client: Client,
    rm: mini_rm::Running,
    runtime: tokio::runtime::Runtime,
    stop: CancellationToken,
}

impl Desk {
    fn open() -> Self {
        let (runtime, stop) = (runtime(), CancellationToken::new());
        let (rm, addresses) = runtime.block_on(start_rm(&[], stop.clone()));
        let client: SocketAddr = addresses.client;
        Self {
            client: Client::connect(client.port()),
            rm,
            runtime,
            stop,
        }
    }

    /// A submission that is good.
    fn submission(&self) -> ApplicationSubmissionContextProto {
        ApplicationSubmissionContextProto {
            application_id: Some(self.client.new_application().into()),
            am_container_spec: Some(ContainerLaunchContextProto::default()),
            resource: Some(Resource::new(1024, 1).into()),
            ..ApplicationSubmissionContextProto::default()
        }
    }

    /// Submits what `spoil` has spoilt and expects this refusal, and that nothing is left of it.
    #[track_caller]
    fn refuses(
        &self,
        exception: HadoopException,
        words: &str,
        spoil: impl FnOnce(&mut ApplicationSubmissionContextProto),
    ) {
        let mut submission = self.submission();
        let id = submission.application_id.expect("it has one");
        spoil(&mut submission);
        let refusal = self.client.submit(submission).unwrap_err();
        assert_is(&refusal, exception, words);
        let id = ApplicationId::try_from(&id).expect("it is one");
        let unknown = self.client.report(id).unwrap_err();
        assert_is(&unknown, HadoopException::ApplicationNotFound, "");
    }

    /// Still takes a submission that is good, and ends.
    #[track_caller]
    fn assert_serves(self) {
        let submission = self.submission();
        let id = submission.application_id.expect("it has one");
        self.client.submit(submission).expect("a good one is taken");
        let id = ApplicationId::try_from(&id).expect("it is one");
        let report = self.client.report(id).expect("it is known");
        assert_eq!(report.host(), "N/A");
        drop(self.client);
        self.stop.cancel();
        self.runtime.block_on(self.rm.join());
    }
}

#[track_caller]
fn assert_is(error: &RpcError, exception: HadoopException, words: &str) {
    let remote = error.remote().unwrap_or_else(|| panic!("{error}"));
    assert!(remote.is(exception), "{remote}");
    assert!(remote.message.contains(words), "{remote}");
}

fn resource(memory: i64, virtual_cores: i32) -> Option<ResourceProto> {
    Some(ResourceProto {
        memory: Some(memory),
        virtual_cores: Some(virtual_cores),
        ..ResourceProto::default()
    })
}

#[test]
fn masters_of_absurd_size_are_refused_as_invalid_requests() {
    let desk = Desk::open();
    let exception = HadoopException::InvalidResourceRequest;
    let largest = LARGEST.to_string();
    for (memory, vcores, words) in [
        (i64::MAX, 1, largest.as_str()),
        (1024, i32::MAX, &largest),
        (8193, 1, &largest),
        (-1, 1, "-1"),
        (1024, i32::MIN, "virtual_cores"),
        (i64::MIN, i32::MIN, "memory"),
    ] {
        desk.refuses(exception, words, |submission| {
            submission.resource = resource(memory, vcores);
        });
    }
    desk.refuses(exception, "no size", |submission| {
        submission.resource = None
    });
    desk.assert_serves();
}

#[test]
fn submissions_that_are_too_much_or_too_little_are_refused() {
    let desk = Desk::open();
    let exception = HadoopException::YarnException;
    desk.refuses(exception, "longer than", |submission| {
        let context = submission.am_container_spec.get_or_insert_default();
        let variables = (0..100_000).map(|number| (format!("VARIABLE_{number}"), "x").into());
        context.environment.extend(variables);
        assert!(submission.encoded_len() > 1_000_000);
    });
    desk.refuses(exception, "am_container_spec", |submission| {
        submission.am_container_spec = None;
    });
    desk.refuses(exception, "application_id", |submission| {
        submission.application_id = None;
    });
    desk.refuses(exception, "credentials", |submission| {
        let context = submission.am_container_spec.get_or_insert_default();
        context.tokens = Some(vec![7; 40].into());
    });
    desk.refuses(exception, "queue", |submission| {
        submission.queue = Some("q".repeat(10_000));
    });
    let empty = SubmitApplicationRequestProto::default();
    let refusal = desk.client.call::<SubmitApplication>(&empty).unwrap_err();
    assert_is(&refusal, exception, "application_submission_context");
    desk.assert_serves();
}

#[test]
fn an_id_that_was_not_given_out_is_refused() {
    let desk = Desk::open();
    let given = desk.client.new_application();
    for (cluster_timestamp, id) in [
        (given.cluster_timestamp, given.id + 1000),
        (given.cluster_timestamp, 0),
        (given.cluster_timestamp, -3),
        (given.cluster_timestamp, i32::MIN),
        (1, given.id),
        (i64::MIN, i32::MAX),
    ] {
        let mut submission = desk.submission();
        submission.application_id = Some(ApplicationIdProto {
            id: Some(id),
            cluster_timestamp: Some(cluster_timestamp),
        });
        let refusal = desk.client.submit(submission).unwrap_err();
        assert_is(&refusal, HadoopException::YarnException, "");
    }
    desk.assert_serves();
}

#[test]
fn an_application_that_is_not_known_is_said_to_be_not_found() {
    let desk = Desk::open();
    // Given out and never submitted.
    let id = desk.client.new_application();
    let refusal = desk.client.report(id).unwrap_err();
    assert_is(
        &refusal,
        HadoopException::ApplicationNotFound,
        &id.to_string(),
    );
    let kill = KillApplicationRequestProto {
        application_id: Some(id.into()),
        ..KillApplicationRequestProto::default()
    };
    let refusal = desk.client.call::<ForceKillApplication>(&kill);
    let words = id.to_string();
    assert_is(
        &refusal.unwrap_err(),
        HadoopException::ApplicationNotFound,
        &words,
    );
    is_refused::<GetApplicationReport>(&desk, &GetApplicationReportRequestProto::default());
    is_refused::<ForceKillApplication>(&desk, &KillApplicationRequestProto::default());
    desk.assert_serves();
}

/// A request that does not say about what is refused with the name of what it lacks.
#[track_caller]
fn is_refused<M: Method>(desk: &Desk, request: &M::Request)
where
    M::Response: std::fmt::Debug,
{
    let refusal = desk.client.call::<M>(request).unwrap_err();
    assert_is(&refusal, HadoopException::YarnException, "application_id");
}

#[test]
fn a_submission_made_twice_is_one() {
    let desk = Desk::open();
    let submission = desk.submission();
    desk.client.submit(submission.clone()).unwrap();
    desk.client.submit(submission).unwrap();
    desk.assert_serves();
}
