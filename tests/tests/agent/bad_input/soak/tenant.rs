//! Attacks by a tenant: calls with a valid token, of one user with several applications.

use std::io::{self, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use records::ContainerId;
use test_support::LaunchContext;
use test_support::scripted::ScriptedAm;
use wire::proto::hadoop_yarn::{ContainerUpdateRequestProto, GetLocalizationStatusesRequestProto};
use wire::protocol::container_management::{GetLocalizationStatuses, PROTOCOL, UpdateContainer};

use super::strangers::{ELSEWHERE, connect};
use super::{Attack, Field, TENANT, allocate, attack, zip_bomb};
use crate::bad_input::limits::{calls_with_long_answers, prove, send_unread};
use crate::bad_input::localization::endless_archive;

/// Time for which containers and connections of an attack stay.
const HOLD: Duration = Duration::from_secs(1);

/// Bytes of a request that is sent slowly: as large as a frame may be here.
const SLOW_FRAME_BYTES: u32 = 8 << 20;

/// Bytes of each part of that request.
const SLOW_PART_BYTES: usize = 64 * 1024;

/// Repeated ids and tokens of one call.
const REPETITIONS: usize = 10_000;

/// Connects the tenant's applications and prepares the files that they ask for.
pub(super) fn attacks(field: &Field<'_>) -> Vec<Attack> {
    let am = |application| ScriptedAm::connect_as(TENANT, field.rm, application);
    let archives: Vec<PathBuf> = (0..6)
        .map(|n| field.folder.join(format!("endless{n}.tar")))
        .collect();
    for archive in &archives {
        endless_archive(archive);
    }
    let bomb = field.folder.join("bomb.zip");
    zip_bomb::write(&bomb, 1 << 30);
    let (empty, ids, updates) = (am(10), am(11), am(12));
    let (huge, endless, bombs) = (am(13), am(14), am(15));
    let large = "x".repeat(7 << 20);
    let beside = archives[0].clone();
    vec![
        attack("frames sent slowly", slow_frame),
        attack("empty elements", move |field| {
            let entries: Bytes = [0x0a, 0].repeat(4 << 20).into();
            let call = empty
                .client()
                .call_raw("startContainers", PROTOCOL, 1, entries);
            u64::from(field.rm.runtime().block_on(call).is_err())
        }),
        attack("unread answers", unread_answers),
        attack("calls of repeated ids", move |field| {
            repeated_ids(field, &ids)
        }),
        attack("calls of repeated update tokens", move |field| {
            repeated_updates(field, &updates)
        }),
        attack("huge launch contexts", move |field| {
            let context = LaunchContext::command("true").env("LARGE", &large);
            // Waits for its download, so that its context waits.
            hold_containers(field, &huge, 12, &context.archive("lib", &beside))
        }),
        attack("endless archives", move |field| {
            let mut context = LaunchContext::command("true");
            for (n, archive) in archives.iter().enumerate() {
                context = context.archive(&format!("lib{n}"), archive);
            }
            hold_containers(field, &endless, 1, &context)
        }),
        attack("zip bombs", move |field| {
            let context = LaunchContext::command("true").archive("lib", &bomb);
            hold_containers(field, &bombs, 1, &context)
        }),
    ]
}

/// Connects with the token of the tenant's application with this number.
fn connect_proven(field: &Field<'_>, application: i32) -> io::Result<TcpStream> {
    let stream = connect(field, ELSEWHERE, field.node.port)?;
    prove(stream, field.tenant_token(application))
}

/// Sends a part of a large frame every tenth of a second, and gives up.
fn slow_frame(field: &Field<'_>) -> u64 {
    let Ok(mut stream) = connect_proven(field, 16) else {
        return 0;
    };
    if stream.write_all(&SLOW_FRAME_BYTES.to_be_bytes()).is_err() {
        return 0;
    }
    for _ in 0..20 {
        // The node may have closed.
        if stream.write_all(&[0; SLOW_PART_BYTES]).is_err() {
            break;
        }
        field.pause(Duration::from_millis(100));
    }
    1
}

fn unread_answers(field: &Field<'_>) -> u64 {
    let calls = calls_with_long_answers();
    let connected = (0..4).filter_map(|_| connect_proven(field, 17).ok());
    let unread: Vec<TcpStream> = connected
        .filter(|stream| send_unread(stream, &calls).is_ok())
        .collect();
    field.pause(HOLD);
    unread.len() as u64
}

fn repeated_ids(field: &Field<'_>, am: &ScriptedAm) -> u64 {
    let mut context = LaunchContext::command("exec sleep 600");
    // One file: each change of it would be one more resource of the cache.
    let file = field.folder.join("file");
    if !file.exists() {
        std::fs::write(&file, "x").unwrap();
    }
    for link in 0..1_000 {
        context = context.file(&format!("link-{link}"), &file);
    }
    let Ok(id) = am.try_start(&allocate(am).opportunistic(), context) else {
        return 0;
    };
    let request = GetLocalizationStatusesRequestProto {
        container_id: vec![id.into(); REPETITIONS],
    };
    let call = am.client().call::<GetLocalizationStatuses>(&request);
    let answered = field.rm.runtime().block_on(call).is_ok();
    stop(field, am, &[id]);
    u64::from(answered)
}

fn repeated_updates(field: &Field<'_>, am: &ScriptedAm) -> u64 {
    let mut allocation = allocate(am).opportunistic();
    let context = LaunchContext::command("exec sleep 600");
    let Ok(id) = am.try_start(&allocation, context) else {
        return 0;
    };
    allocation.version = 1;
    let token = am.secrets().container_token(&allocation);
    let request = ContainerUpdateRequestProto {
        update_container_token: vec![token; REPETITIONS],
    };
    let call = am.client().call::<UpdateContainer>(&request);
    let answered = field.rm.runtime().block_on(call).is_ok();
    stop(field, am, &[id]);
    u64::from(answered)
}

/// Starts containers, keeps them for a moment and stops them. Returns how many were accepted.
fn hold_containers(
    field: &Field<'_>,
    am: &ScriptedAm,
    count: usize,
    context: &LaunchContext,
) -> u64 {
    let started: Vec<ContainerId> = (0..count)
        .filter_map(|_| {
            am.try_start(&allocate(am).opportunistic(), context.clone())
                .ok()
        })
        .collect();
    field.pause(HOLD);
    stop(field, am, &started);
    started.len() as u64
}

fn stop(field: &Field<'_>, am: &ScriptedAm, ids: &[ContainerId]) {
    for id in ids {
        // It may have ended by itself.
        let _stopped = am.stop(*id);
        field.rm.wait_completed(*id);
    }
}
