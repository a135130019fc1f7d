//! Launch contexts: what an ApplicationMaster wants to have started.

use launch_context::LaunchContext;
use prost::Message;
use wire::credentials::Credentials;
use wire::decode_cost;
use wire::proto::hadoop_yarn::ContainerLaunchContextProto;

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "launch_context",
    bytes_max: 8 * 1024,
    // An empty element of a list takes two bytes and becomes an entry of some hundred.
    memory: Memory {
        base: 64 * 1024,
        per_byte: 1024,
    },
    run,
    seeds,
};

fn run(input: &[u8]) {
    let Ok(context) = ContainerLaunchContextProto::decode(input) else {
        return;
    };
    decode_cost::of_message::<ContainerLaunchContextProto>(input)
        .expect("a message that is decoded has a cost");
    let links = context.local_resources.len();
    let commands = context.command.len();
    let Ok(context) = LaunchContext::read(context) else {
        return;
    };
    assert_eq!(
        (context.resources.len(), context.commands.len()),
        (links, commands)
    );
    assert!(context.credentials.is_empty() || Credentials::read(&context.credentials).is_ok());
    // What a log line says of a context is short, whatever is in it.
    assert!(format!("{context:?}").len() < 200 + 64 * input.len());
}

fn seeds() -> Vec<Vec<u8>> {
    let context = test_support::LaunchContext::command("exec sleep 1")
        .env("CLASSPATH", "$PWD:{{HADOOP_CONF_DIR}}<CPS>x")
        .file("job.xml", "/".as_ref())
        .archive("lib", "/".as_ref())
        .tokens(bytes::Bytes::from_static(b"HDTS\x00\x00\x00"));
    vec![
        context.into_proto().encode_to_vec(),
        test_support::LaunchContext::command("true")
            .into_proto()
            .encode_to_vec(),
    ]
}
