//! Relays: sockets of this machine that lead to a NameNode. What the client sends goes through;
//! what the NameNode sends goes through a [`Handshake`] first.

use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::time::timeout;
use wire::frame::{Decoded, FrameDecoder};

use crate::handshake::{FRAME_MAX, Handshake, Method, Verdict, refusal, unavailable};

/// Limit on a connection's setup, in a cluster's own network.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Connections of one relay at a time: each client has one or two.
const CONNECTIONS_MAX: usize = 128;

/// Threads that wait for name services.
const BLOCKING_THREADS_MAX: usize = 4;

/// Stack of those threads, in bytes.
const STACK_BYTES: usize = 256 * 1024;

/// Table of the kernel with all connections of IPv4.
const CONNECTIONS: &str = "/proc/self/net/tcp";

/// How a client proves itself to one NameNode.
pub(crate) trait Policy: Send + Sync + 'static {
    /// Returns the method for a connection to this address; else the frame that refuses it. May
    /// wait for a name service.
    fn method(&self, server: IpAddr) -> Result<Method, Bytes>;

    /// Returns the frame that refuses every connection at present.
    fn refused(&self) -> Option<Bytes>;
}

/// Starts the thread of all relays of a process.
pub(crate) fn start_thread() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_stack_size(STACK_BYTES)
        .build()?;
    let handle = runtime.handle().clone();
    let thread = std::thread::Builder::new()
        .name("namenode-access".to_owned())
        .stack_size(STACK_BYTES);
    // It serves as long as the process lives.
    thread.spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle)
}

/// Opens a relay to a NameNode at this host and port, for as long as the process lives. Returns its
/// address.
pub(crate) fn open(
    handle: &Handle,
    name_node: String,
    policy: Arc<impl Policy>,
) -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let _entered = handle.enter();
    let listener = TcpListener::from_std(listener)?;
    handle.spawn(listen(listener, address, name_node.into(), policy));
    Ok(address)
}

async fn listen(
    listener: TcpListener,
    address: SocketAddr,
    name_node: Arc<str>,
    policy: Arc<impl Policy>,
) {
    let places = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((client, peer)) = listener.accept().await else {
            // No descriptor is left: some connection ends first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // Whoever else has an account on this machine gets no connection, and no place.
        if !is_own(peer, address) {
            continue;
        }
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let (name_node, policy) = (Arc::clone(&name_node), Arc::clone(&policy));
        tokio::spawn(async move {
            // Either end broke off; the client notices.
            let _broke_off = serve(client, &name_node, policy).await;
            drop(place);
        });
    }
}

/// Returns whether the process at the other end of a connection has the user of this one.
fn is_own(peer: SocketAddr, own: SocketAddr) -> bool {
    let uid = rustix::process::geteuid().as_raw();
    let table = std::fs::read_to_string(CONNECTIONS).unwrap_or_default();
    owner_in(&table, peer, own) == Some(uid)
}

/// Returns the user of the connection from one address to another, in the kernel's table.
fn owner_in(table: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let (from, to) = (text_of(from)?, text_of(to)?);
    let mut lines = table.lines().map(|line| line.split_ascii_whitespace());
    let mut columns = lines.find_map(|mut columns| {
        let is_it = columns.nth(1) == Some(&*from) && columns.next() == Some(&*to);
        is_it.then_some(columns)
    })?;
    // State, queues, timers and repetitions stand between.
    columns.nth(4)?.parse().ok()
}

/// Returns an address as the kernel's table has it: the number in the machine's order of bytes.
fn text_of(address: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = address.ip() else {
        return None;
    };
    let number = u32::from_ne_bytes(ip.octets());
    Some(format!("{number:08X}:{:04X}", address.port()))
}

async fn serve(client: TcpStream, name_node: &str, policy: Arc<impl Policy>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let (from_client, mut to_client) = client.into_split();
    if let Some(frame) = policy.refused() {
        return refuse(from_client, to_client, &frame).await;
    }
    let server = match connect(name_node).await {
        Ok(server) => server,
        Err(error) => {
            let frame = unavailable(&format!("no connection to {name_node}: {error}"));
            return refuse(from_client, to_client, &frame).await;
        }
    };
    let address = server.peer_addr()?.ip();
    let method = tokio::task::spawn_blocking(move || policy.method(address)).await;
    let method = match method.map_err(io::Error::other)? {
        Ok(method) => method,
        Err(frame) => return refuse(from_client, to_client, &frame).await,
    };
    let (mut from_server, to_server) = server.into_split();
    let sending = tokio::spawn(pass(from_client, to_server));
    let mut decoder = FrameDecoder::new(FRAME_MAX);
    let mut handshake = Handshake::new(method);
    let shaken = shake(
        &mut handshake,
        &mut decoder,
        &mut from_server,
        &mut to_client,
    );
    match shaken.await {
        Ok(true) => {
            to_client.write_all(decoder.read_buffer()).await?;
            copy(&mut from_server, &mut to_client).await?;
            to_client.shutdown().await?;
            sending.await.map_err(io::Error::other)?
        }
        ended => {
            sending.abort();
            to_client.shutdown().await?;
            ended.map(|_| ())
        }
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
    copy(&mut from, &mut to).await?;
    to.shutdown().await
}

/// Tells the client why, after what it has to say itself: a connection with unread bytes would be
/// reset, and the reason with it.
async fn refuse(
    mut from_client: OwnedReadHalf,
    mut to_client: OwnedWriteHalf,
    frame: &[u8],
) -> io::Result<()> {
    to_client.write_all(frame).await?;
    to_client.shutdown().await?;
    copy(&mut from_client, &mut tokio::io::sink()).await?;
    Ok(())
}

async fn connect(name_node: &str) -> io::Result<TcpStream> {
    let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(name_node)).await;
    let server = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    server.set_nodelay(true)?;
    Ok(server)
}

/// Passes the server's part of a negotiation on. Returns whether both sides have proved who they
/// are; else the client was told why not.
async fn shake(
    handshake: &mut Handshake,
    decoder: &mut FrameDecoder,
    from_server: &mut OwnedReadHalf,
    to_client: &mut OwnedWriteHalf,
) -> io::Result<bool> {
    loop {
        let verdict = match decoder.frame() {
            Ok(Decoded::Complete(frame)) => handshake.take(frame),
            Ok(Decoded::Incomplete) => {
                if from_server.read_buf(decoder.read_buffer()).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                continue;
            }
            Err(error) => Verdict::Refuse(refusal(&format!("the NameNode's answer: {error}"))),
        };
        match verdict {
            Verdict::Pass(frame) => to_client.write_all(&frame).await?,
            Verdict::PassLast(frame) => {
                to_client.write_all(&frame).await?;
                return Ok(true);
            }
            Verdict::Refuse(frame) => {
                to_client.write_all(&frame).await?;
                return Ok(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_whose_a_connection_is() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(own).unwrap();
        let (_server, peer) = listener.accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        assert!(is_own(peer, own));
        let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        assert!(!is_own(nobody, own));
    }

    #[test]
    fn another_users_connection_is_told_apart() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                     uid  timeout inode\n   0: 0100007F:1F54 0100007F:0016 01 00000000:00000000 \
                     00:00000000 00000000  1001        0 12345 1\n";
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        assert_eq!(owner_in(table, at(0x1f54), at(0x16)), Some(1001));
        assert_eq!(owner_in(table, at(0x16), at(0x1f54)), None);
        assert_eq!(owner_in("", at(0x1f54), at(0x16)), None);
    }
}
