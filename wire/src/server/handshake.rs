//! The server's side of the handshake, from the first byte to the connection context: bytes in,
//! answers appended, a caller out.
//!
//! ```text
//! preamble NONE ──▶ Simple ──context──▶ caller as claimed
//! preamble SASL ──▶ Sasl ──INITIATE{TOKEN}──▶ Proven ──context──▶ caller as in the token
//!                     ├──── a security layer as well ──▶ caller as in the token
//!                     └──── no token wanted, or SIMPLE chosen ──▶ Simple
//! ```
//! With a layer the context comes wrapped, in one token with the first call, which may be long. So
//! the connection takes it, with the caller's memory.

use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use refusals::Reason;

use crate::exception::{HadoopException, RemoteException, RpcErrorCode};
use crate::frame::{
    AuthProtocol, DelimitedError, IPC_VERSION, Preamble, PreambleError, take_delimited,
};
use crate::header::{
    self, CALL_ID_CONTEXT, CALL_ID_INVALID, CALL_ID_PING, CALL_ID_SASL, CallRef, HeaderError,
};
use crate::layer::Layer;
use crate::protection::Protections;
use crate::proto::hadoop_common::{IpcConnectionContextProto, RpcRequestHeaderProto, RpcSaslProto};
use crate::sasl::{Authenticated, SaslServer, ServerAuth, ServerStep};
use crate::service::Caller;
use crate::wrapped::{self, WrappedError};

/// Answer to an HTTP client.
const HTTP_ANSWER: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\nConnection: close\r\n\r\n\
    This port speaks Hadoop RPC, not HTTP. The web interface of this process has a port of its own.\r\n";

/// A refusal that ends the connection. The answer, if any, has been appended to the output.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error(transparent)]
    Preamble(#[from] PreambleError),
    #[error("call id {call_id}: {exception}")]
    Answered {
        call_id: i32,
        exception: RemoteException,
    },
}

impl Refused {
    /// Returns the reason in the words of all ports.
    pub(super) fn reason(&self) -> Reason {
        match self {
            Self::Answered { exception, .. }
                if exception.code == RpcErrorCode::FatalUnauthorized =>
            {
                Reason::Unauthorized
            }
            Self::Preamble(_) | Self::Answered { .. } => Reason::Malformed,
        }
    }
}

/// Appends a failure that ends the connection and returns the refusal.
pub(super) fn refuse(out: &mut BytesMut, call: &CallRef, exception: RemoteException) -> Refused {
    let call_id = call.call_id;
    // Only a message of 128 MiB would not fit; then no answer is sent.
    let _ = header::put_failure(out, call, &exception);
    Refused::Answered { call_id, exception }
}

fn fatal(code: RpcErrorCode, text: impl Into<String>) -> RemoteException {
    RemoteException::with_code(HadoopException::RpcServer, text, code)
}

pub(super) fn invalid_header(text: impl Into<String>) -> RemoteException {
    fatal(RpcErrorCode::FatalInvalidRpcHeader, text)
}

pub(super) fn undecodable(error: &DelimitedError) -> RemoteException {
    fatal(RpcErrorCode::FatalDeserializingRequest, error.to_string())
}

/// Takes and checks a frame's header; a violation is answered and ends the connection.
pub(super) fn open_frame(
    frame: &mut Bytes,
    out: &mut BytesMut,
) -> Result<RpcRequestHeaderProto, Refused> {
    let header = header::take_request_header(frame).map_err(|error| {
        refuse(
            out,
            &CallRef::out_of_band(CALL_ID_INVALID),
            undecodable(&error),
        )
    })?;
    if let Err(error) = header::check_request_header(&header) {
        let call = CallRef {
            retry_count: header.retry_count(),
            ..CallRef::out_of_band(header.call_id)
        };
        return Err(refuse(out, &call, fatal(error.code(), header_text(error))));
    }
    Ok(header)
}

/// Takes the token out of a frame of a wrapped connection; a violation is answered and ends the
/// connection.
pub(super) fn open_wrapped(frame: &mut Bytes, out: &mut BytesMut) -> Result<Bytes, Refused> {
    let header = open_frame(frame, out)?;
    wrapped::token_of_request(header.call_id, frame.split_off(0)).map_err(|error| {
        let exception = match error {
            WrappedError::InClear | WrappedError::State { .. } | WrappedError::Incomplete(_) => {
                invalid_header(error.to_string())
            }
            WrappedError::Malformed(_) => {
                fatal(RpcErrorCode::FatalDeserializingRequest, error.to_string())
            }
        };
        refuse(out, &CallRef::out_of_band(header.call_id), exception)
    })
}

fn header_text(error: HeaderError) -> String {
    error.to_string()
}

/// Returns the refusal of a special call id that is not allowed after the context.
pub(super) fn out_of_band_after_context(
    call_id: i32,
    payload: Bytes,
    proven: bool,
) -> RemoteException {
    match call_id {
        CALL_ID_CONTEXT => invalid_header("Connection context already processed"),
        CALL_ID_SASL if proven => {
            // Java tells a message of a layer that was not agreed on from a step of a negotiation.
            if wrapped::token_of_request(call_id, payload).is_ok() {
                RemoteException::with_code(
                    HadoopException::Sasl,
                    "Server is not wrapping data",
                    RpcErrorCode::FatalInvalidRpcHeader,
                )
            } else {
                invalid_header("SASL negotiation is over")
            }
        }
        CALL_ID_SASL => invalid_header("SASL protocol not requested by client"),
        _ => invalid_header(format!("Unknown out of band call #{call_id}")),
    }
}

#[derive(Debug)]
enum Phase {
    Sasl(SaslServer),
    Simple,
    Proven(Authenticated),
}

/// The outcome of a handshake.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) caller: Caller,
    pub(super) next: Next,
}

/// What follows a handshake.
#[derive(Debug)]
pub(super) enum Next {
    /// Calls.
    Calls {
        /// Protocol that the connection is for.
        protocol: Option<String>,
    },
    /// The context and calls, with a layer.
    Context(Layer),
}

/// The state of one connection before its caller is known.
#[derive(Debug)]
pub(super) struct Handshake {
    peer: SocketAddr,
    phase: Phase,
}

impl Handshake {
    /// Starts with the result of reading the preamble. `nonce` is fresh and unpredictable.
    pub(super) fn start(
        preamble: Result<Preamble, PreambleError>,
        auth: &ServerAuth,
        protections: &Protections,
        nonce: impl FnOnce() -> String,
        peer: SocketAddr,
        out: &mut BytesMut,
    ) -> Result<Self, Refused> {
        let preamble = preamble.inspect_err(|error| answer_preamble(*error, out))?;
        let phase = match preamble.auth {
            AuthProtocol::Sasl => {
                Phase::Sasl(SaslServer::new(auth.clone(), protections.clone(), nonce()))
            }
            AuthProtocol::None => match auth.check_simple() {
                Ok(()) => Phase::Simple,
                Err(error) => {
                    return Err(refuse(out, &CallRef::out_of_band(CALL_ID_INVALID), error));
                }
            },
        };
        Ok(Self { peer, phase })
    }

    /// Handles a frame. Returns the caller once the handshake is at its end.
    pub(super) fn frame(
        &mut self,
        mut frame: Bytes,
        out: &mut BytesMut,
    ) -> Result<Option<Known>, Refused> {
        let header = open_frame(&mut frame, out)?;
        let result = match header.call_id {
            CALL_ID_PING => Ok(None),
            CALL_ID_SASL => self.sasl(frame, out),
            CALL_ID_CONTEXT => self.context(frame).map(Some),
            other => Err(before_context(other)),
        };
        result.map_err(|exception| {
            let call = CallRef {
                retry_count: header.retry_count(),
                ..CallRef::out_of_band(header.call_id)
            };
            refuse(out, &call, exception)
        })
    }

    /// Takes a step of the negotiation. Returns the caller after the last one, if there is a layer.
    fn sasl(
        &mut self,
        mut payload: Bytes,
        out: &mut BytesMut,
    ) -> Result<Option<Known>, RemoteException> {
        let Phase::Sasl(server) = &mut self.phase else {
            return Err(out_of_band_after_context(
                CALL_ID_SASL,
                payload,
                matches!(self.phase, Phase::Proven(_)),
            ));
        };
        let received: RpcSaslProto =
            take_delimited(&mut payload).map_err(|error| undecodable(&error))?;
        let mut known = None;
        let reply = match server.handle(&received)? {
            ServerStep::Reply(reply) => Some(reply),
            ServerStep::SwitchToSimple(reply) => {
                self.phase = Phase::Simple;
                reply
            }
            ServerStep::Done(reply, authenticated) => {
                known = server.take_layer().map(|layer| Known {
                    caller: proven_caller(&authenticated, self.peer),
                    next: Next::Context(layer),
                });
                self.phase = Phase::Proven(authenticated);
                Some(reply)
            }
        };
        if let Some(reply) = reply {
            header::put_sasl_response(out, &reply)
                .map_err(|error| fatal(RpcErrorCode::FatalUnknown, error.to_string()))?;
        }
        Ok(known)
    }

    fn context(&self, payload: Bytes) -> Result<Known, RemoteException> {
        if let Phase::Sasl(_) = self.phase {
            return Err(invalid_header(
                "Connection header sent during SASL negotiation",
            ));
        }
        let Context { claimed, protocol } = Context::read(payload)?;
        let caller = match &self.phase {
            Phase::Proven(authenticated) => {
                check_claim(claimed.as_deref(), &authenticated.user)?;
                proven_caller(authenticated, self.peer)
            }
            Phase::Simple | Phase::Sasl(_) => {
                let user = claimed.unwrap_or_default();
                Caller {
                    owner: user.clone(),
                    user,
                    token_identifier: None,
                    token_kind: None,
                    peer: self.peer,
                }
            }
        };
        Ok(Known {
            caller,
            next: Next::Calls { protocol },
        })
    }
}

/// Checks the context of a caller who has proved a token. Returns the protocol that it names.
pub(super) fn check_context(
    caller: &Caller,
    payload: Bytes,
) -> Result<Option<String>, RemoteException> {
    let Context { claimed, protocol } = Context::read(payload)?;
    check_claim(claimed.as_deref(), &caller.user)?;
    Ok(protocol)
}

/// Returns the refusal of a call id that may not come before the context.
pub(super) fn before_context(call_id: i32) -> RemoteException {
    match call_id {
        0.. => invalid_header("Connection context not established"),
        other => invalid_header(format!("Unknown out of band call #{other}")),
    }
}

/// A connection context.
struct Context {
    /// User that the caller claims to be.
    claimed: Option<String>,
    /// Protocol that the connection is for.
    protocol: Option<String>,
}

impl Context {
    fn read(mut payload: Bytes) -> Result<Self, RemoteException> {
        let context: IpcConnectionContextProto =
            take_delimited(&mut payload).map_err(|error| undecodable(&error))?;
        let names = context.user_info.unwrap_or_default();
        Ok(Self {
            claimed: names.effective_user.filter(|user| !user.is_empty()),
            protocol: context.protocol,
        })
    }
}

/// Checks that who has proved to be `user` claims to be nobody else.
fn check_claim(claimed: Option<&str>, user: &str) -> Result<(), RemoteException> {
    if claimed.is_none_or(|claimed| claimed == user) {
        return Ok(());
    }
    Err(RemoteException::with_code(
        HadoopException::AccessControl,
        format!("Authenticated user ({user}) doesn't match what the client claims to be"),
        RpcErrorCode::FatalUnauthorized,
    ))
}

fn proven_caller(authenticated: &Authenticated, peer: SocketAddr) -> Caller {
    Caller {
        user: authenticated.user.clone(),
        owner: authenticated.owner.clone(),
        token_identifier: Some(authenticated.identifier.clone()),
        token_kind: Some(authenticated.kind),
        peer,
    }
}

/// Answers an unsupported preamble in the form that such a client understands: Hadoop changed it
/// between versions.
fn answer_preamble(error: PreambleError, out: &mut BytesMut) {
    let refusal = CallRef::out_of_band(CALL_ID_INVALID);
    match error {
        PreambleError::HttpGet => out.put_slice(HTTP_ANSWER),
        PreambleError::UnknownAuth { auth } => {
            let exception = RemoteException::with_code(
                HadoopException::Ipc,
                format!("Unknown auth protocol:{auth}"),
                RpcErrorCode::FatalUnauthorized,
            );
            let _ = refuse(out, &refusal, exception);
        }
        PreambleError::Version { version } => {
            let text = format!(
                "Server IPC version {IPC_VERSION} cannot communicate with client version {version}"
            );
            match version {
                // The byte is signed in Java. Negative versions and those before 3 are not
                // answered.
                0..3 | 128.. => {}
                3..IPC_VERSION => {
                    out.put_i32(-1);
                    out.put_i32(-1);
                    for part in [HadoopException::VersionMismatch.as_class_name(), &text] {
                        out.put_i32(i32::try_from(part.len()).expect("a class name and one line"));
                        out.put_slice(part.as_bytes());
                    }
                }
                IPC_VERSION..128 => {
                    let exception = RemoteException::with_code(
                        HadoopException::VersionMismatch,
                        text,
                        RpcErrorCode::FatalVersionMismatch,
                    );
                    let _ = refuse(out, &refusal, exception);
                }
            }
        }
    }
}
