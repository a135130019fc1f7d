//! A worker's main loop. Everything that confines the process comes before the first session, and
//! so before the first byte of a stranger.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSliceMut, Read as _, Seek as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use hadoop_fs::{FileSystems, SecureAccess};
use namenode_access::{Access, SECRET_MAX};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{Pid, dup2_stdin, getppid, setsid};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use users::Account;

use crate::message::{SECRET, SESSION, SETUP_MAX, Setup};
use crate::{frame, session};

/// Name of the process in lists.
const NAME: &str = "nm-agent-files";

/// Address space of a worker, in bytes. An honest one has some 100 MiB, most of it never touched.
const MEMORY_MAX: u64 = 256 << 20;

/// Descriptors of a worker: sessions, and connections to NameNodes and DataNodes.
const DESCRIPTORS_MAX: u64 = 512;

/// Stack of the thread of a session, in bytes. Operations run on threads of the client.
const STACK_BYTES: usize = 512 * 1024;

/// Is a worker: serves the agent at the other end of standard input until it ends.
///
/// # Errors
/// The process cannot be confined as the agent demands, or the agent sends what it should not.
pub fn serve() -> io::Result<()> {
    let control = take_control()?;
    close_others(control.as_raw_fd())?;
    leave_terminal();
    bound_heaps();
    let mut buffer = Vec::new();
    if !frame::receive(&control, &mut buffer, SETUP_MAX, None)? {
        return Ok(());
    }
    let setup = Setup::decode(&buffer).map_err(io::Error::other)?;
    confine(&setup)?;
    let properties = &setup.file_systems.client_properties;
    let access = setup.proof.map(|proof| Access::new(proof, properties));
    let access = access.transpose()?.map(Arc::new);
    let secure = access
        .clone()
        .map(|access| -> Arc<dyn SecureAccess> { access });
    let file_systems = Arc::new(FileSystems::with_access(setup.file_systems, secure));
    while let Some(handed) = next_descriptor(&control)? {
        let stream = match handed {
            (SESSION, descriptor) => UnixStream::from(descriptor),
            (SECRET, descriptor) => {
                let access = access.as_ref().ok_or(io::ErrorKind::InvalidData)?;
                access.take(&read_secret(descriptor)?)?;
                continue;
            }
            (_, _) => return Err(io::ErrorKind::InvalidData.into()),
        };
        let file_systems = Arc::clone(&file_systems);
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        thread.spawn(move || {
            // A session that breaks off ends alone; the agent notices the end of its socket.
            let _broke_off = session::serve(&stream, &file_systems);
        })?;
    }
    Ok(())
}

/// Takes the socket that is standard input, and puts nothing in its place.
fn take_control() -> io::Result<UnixStream> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    dup2_stdin(File::open("/dev/null")?)?;
    Ok(UnixStream::from(control))
}

/// Closes every descriptor but the first three and `kept`: some library of the agent's may have
/// opened one that is inherited.
fn close_others(kept: RawFd) -> io::Result<()> {
    let entries = std::fs::read_dir("/proc/self/fd")?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let numbers: Vec<RawFd> = names.filter_map(|name| name.parse().ok()).collect();
    for number in numbers {
        if number > 2 && number != kept {
            #[expect(unsafe_code, reason = "nothing in this process owns the descriptor")]
            // SAFETY: the process has one thread and has opened only `kept`. The descriptor of the
            // list above is closed already, which is an error without consequence.
            unsafe {
                libc::close(number);
            }
        }
    }
    Ok(())
}

/// Leaves the agent's terminal and process group, and takes no signal that means the agent: the
/// worker ends when its socket does.
fn leave_terminal() {
    // Fails only for the leader of a process group, which a new child is not.
    let _is_leader = setsid();
    let mut signals = SigSet::empty();
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
    ] {
        signals.add(signal);
    }
    let _blocked = signals.thread_block();
    // Only what an operator reads depends on it.
    let _shown = CString::new(NAME).map(|name| prctl::set_name(&name));
}

/// Makes all threads share one heap. glibc reserves 64 MiB of addresses for each further one, which
/// the limit on memory counts.
fn bound_heaps() {
    #[cfg(target_env = "gnu")]
    {
        #[expect(unsafe_code, reason = "the allocator's setting has no safe binding")]
        // SAFETY: mallopt takes two integers, and locks the heap that it changes.
        let _accepted = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// Takes the rights of the account and the limits of a worker, for good.
fn confine(setup: &Setup) -> io::Result<()> {
    std::env::set_current_dir("/")?;
    setrlimit(Resource::RLIMIT_AS, MEMORY_MAX, MEMORY_MAX)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    setrlimit(Resource::RLIMIT_NOFILE, DESCRIPTORS_MAX, DESCRIPTORS_MAX)?;
    if let Some(ids) = &setup.account {
        let account = Account::of_ids(ids.clone());
        account.ok_or(io::ErrorKind::PermissionDenied)?.assume()?;
    }
    users::renounce_capabilities()?;
    // After the change of the user, which resets both.
    users::seal_this_process()?;
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() == Pid::from_raw(setup.parent) {
        Ok(())
    } else {
        Err(io::Error::other("the agent has ended"))
    }
}

fn read_secret(descriptor: OwnedFd) -> io::Result<Vec<u8>> {
    let mut file = File::from(descriptor);
    file.rewind()?;
    let mut secret = Vec::new();
    file.take(SECRET_MAX as u64 + 1).read_to_end(&mut secret)?;
    Ok(secret)
}

/// Receives the next descriptor and what it is; `None`: the agent has ended.
fn next_descriptor(control: &UnixStream) -> io::Result<Option<(u8, OwnedFd)>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut byte)];
    let received = loop {
        match recvmsg(control, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut descriptors = Vec::<OwnedFd>::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    match (received.bytes, descriptors.pop()) {
        (0, _) => Ok(None),
        (_, Some(descriptor)) => Ok(Some((byte[0], descriptor))),
        (_, None) => Err(io::ErrorKind::InvalidData.into()),
    }
}
