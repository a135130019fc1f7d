//! Duration of a call over loopback, compared with a plain exchange of the same bytes.
//!
//! Unit: time per round trip, one at a time unless the name says otherwise. `echo` is the bound:
//! the same number of bytes each way over a TCP connection of the same runtime, without RPC. `call`
//! is an empty call on an open connection; `connect_prove_call` is the pattern of a Java
//! ApplicationMaster with a node: connect, prove a token, one call, close; its bound is
//! `connect_three_echoes`, the same number of round trips. A call that spawned a task for each
//! frame, or wrote header and body apart, would be slow here.
//!
//! `protected` sends 1 KiB and 1 MiB each way under each level of `hadoop.rpc.protection`.
//!
//! Run: `cargo bench -p wire --bench rpc`

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that fails has nothing to measure"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, Throughput};
use test_support::tokens::master_key;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::exception::RemoteException;
use wire::rpc::{
    BoxFuture, Caller, ClientAuth, ClientOptions, Protection, RpcClient, RpcServer, SecretManager,
    ServerAuth, Service, Verified,
};
use wire::token::{Token, kind};

const PROTOCOL: &str = "org.apache.hadoop.yarn.api.ApplicationMasterProtocolPB";
/// Approximate size of an empty call, in bytes.
const ECHO_BYTES: usize = 110;
/// Calls in flight in the pipelined case.
const PIPELINED: u64 = 64;

struct Empty;

impl Service for Empty {
    fn protocol(&self) -> &'static str {
        PROTOCOL
    }

    fn version(&self) -> u64 {
        1
    }

    fn call<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a str,
        request: Bytes,
    ) -> BoxFuture<'a, Result<Bytes, RemoteException>> {
        Box::pin(async move { Ok(request) })
    }
}

struct Keys;

impl SecretManager for Keys {
    fn kind(&self) -> &'static str {
        kind::NM_TOKEN
    }

    fn retrieve(&self, identifier: &[u8]) -> Result<Verified, RemoteException> {
        Ok(Verified {
            password: master_key().sign(identifier).to_vec(),
            user: "appattempt".to_owned(),
            owner: None,
        })
    }
}

fn token() -> Token {
    Token::sign(
        &master_key(),
        Bytes::from_static(&[7; 60]),
        kind::NM_TOKEN,
        "",
    )
}

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

async fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let mut buffer = [0; ECHO_BYTES];
                while stream.read_exact(&mut buffer).await.is_ok() {
                    stream.write_all(&buffer).await.unwrap();
                }
            });
        }
    });
    address
}

async fn rpc_server() -> SocketAddr {
    let auth = ServerAuth::TokenOrSimple(Arc::new(Keys));
    let (server, address) = RpcServer::builder(auth)
        .protections(Protection::ALL.into_iter().collect())
        .service(Empty)
        .bind(loopback())
        .await
        .unwrap();
    tokio::spawn(server.serve(CancellationToken::new()));
    address
}

async fn echo(stream: &mut TcpStream) {
    let mut buffer = [1; ECHO_BYTES];
    stream.write_all(&buffer).await.unwrap();
    stream.read_exact(&mut buffer).await.unwrap();
}

async fn connect_echo(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

async fn connect(address: SocketAddr, auth: ClientAuth) -> RpcClient {
    RpcClient::connect(address, PROTOCOL, auth, &ClientOptions::default())
        .await
        .unwrap()
}

async fn connect_under(address: SocketAddr, level: Protection) -> RpcClient {
    let options = ClientOptions {
        protections: level.into(),
        ..ClientOptions::default()
    };
    RpcClient::connect(address, PROTOCOL, ClientAuth::Token(token()), &options)
        .await
        .unwrap()
}

async fn call(client: &RpcClient) {
    client
        .call_raw("allocate", PROTOCOL, 1, Bytes::new())
        .await
        .unwrap();
}

/// Runs the load on a worker thread, as in the agent: a runtime's `block_on` would add a thread
/// switch per wait.
fn on_worker<F>(runtime: &Runtime, load: F) -> Duration
where
    F: Future<Output = ()> + Send + 'static,
{
    runtime
        .block_on(runtime.spawn(async move {
            let begin = Instant::now();
            load.await;
            begin.elapsed()
        }))
        .unwrap()
}

fn standing_connection(
    criterion: &mut Criterion,
    runtime: &Runtime,
    echo_address: SocketAddr,
    rpc_address: SocketAddr,
) {
    let mut standing = criterion.benchmark_group("standing_connection");
    standing.bench_function("echo", |bencher| {
        bencher.iter_custom(|rounds| {
            on_worker(runtime, async move {
                let mut stream = connect_echo(echo_address).await;
                for _ in 0..rounds {
                    echo(&mut stream).await;
                }
            })
        });
    });
    standing.bench_function("call", |bencher| {
        bencher.iter_custom(|rounds| {
            on_worker(runtime, async move {
                let client = connect(rpc_address, ClientAuth::Token(token())).await;
                for _ in 0..rounds {
                    call(&client).await;
                }
            })
        });
    });
    standing.throughput(Throughput::Elements(PIPELINED));
    standing.bench_function("calls_64_at_once", |bencher| {
        bencher.iter_custom(|rounds| {
            on_worker(runtime, async move {
                let client = connect(rpc_address, ClientAuth::Token(token())).await;
                let mut callers = JoinSet::new();
                for _ in 0..PIPELINED {
                    let client = client.clone();
                    callers.spawn(async move {
                        for _ in 0..rounds {
                            call(&client).await;
                        }
                    });
                }
                while callers.join_next().await.is_some() {}
            })
        });
    });
    standing.finish();
}

fn connection_per_call(
    criterion: &mut Criterion,
    runtime: &Runtime,
    echo_address: SocketAddr,
    rpc_address: SocketAddr,
) {
    let mut fresh = criterion.benchmark_group("connection_per_call");
    fresh.bench_function("connect_three_echoes", |bencher| {
        bencher.iter_custom(|rounds| {
            on_worker(runtime, async move {
                for _ in 0..rounds {
                    let mut stream = connect_echo(echo_address).await;
                    for _ in 0..3 {
                        echo(&mut stream).await;
                    }
                }
            })
        });
    });
    fresh.bench_function("connect_prove_call", |bencher| {
        bencher.iter_custom(|rounds| {
            on_worker(runtime, async move {
                for _ in 0..rounds {
                    call(&connect(rpc_address, ClientAuth::Token(token())).await).await;
                }
            })
        });
    });
    fresh.finish();
}

/// Long calls under each level of protection, and short ones.
fn protected(criterion: &mut Criterion, runtime: &Runtime, rpc_address: SocketAddr) {
    let mut group = criterion.benchmark_group("protected");
    for level in Protection::ALL {
        for (name, length) in [("1_kib", 1 << 10), ("1_mib", 1 << 20)] {
            group.throughput(Throughput::Bytes(2 * length as u64));
            group.bench_function(format!("{}_{name}", level.name()), |bencher| {
                bencher.iter_custom(|rounds| {
                    on_worker(runtime, async move {
                        let client = connect_under(rpc_address, level).await;
                        let request = Bytes::from(vec![7; length]);
                        for _ in 0..rounds {
                            let request = request.clone();
                            let answer = client.call_raw("allocate", PROTOCOL, 1, request);
                            assert_eq!(answer.await.unwrap().len(), length);
                        }
                    })
                });
            });
        }
    }
    group.finish();
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (echo_address, rpc_address) =
        runtime.block_on(async { (echo_server().await, rpc_server().await) });
    let mut criterion = Criterion::default().configure_from_args();

    standing_connection(&mut criterion, &runtime, echo_address, rpc_address);
    connection_per_call(&mut criterion, &runtime, echo_address, rpc_address);
    protected(&mut criterion, &runtime, rpc_address);
    criterion.final_summary();
}
