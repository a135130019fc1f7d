//! The protocols of YARN, a module for each: what its methods are called, what they take and what they answer.
//!
//! Every module has the same shape, written by one macro from one list, so that client and server cannot disagree:
//!
//! - a [`Method`](crate::rpc::Method) marker for each method, such as [`container_management::StartContainers`], for
//!   the client's side;
//! - a trait with a function for each method, such as [`container_management::ContainerManagementProtocol`], for the
//!   server's side. Every function has a body that refuses the call as not supported, so that an implementation writes
//!   only what it has;
//! - a [`Service`](crate::rpc::Service) that decodes a call, runs the function and encodes its answer, such as
//!   [`container_management::ContainerManagementService`];
//! - `PROTOCOL`, `VERSION`, `METHODS` and `SIGNATURES`, for code that does not go through the types.

use std::future::Future;

use bytes::Bytes;
use prost::Message;

use crate::exception::{HadoopException, RemoteException};

/// A method by names, to compare with the descriptors of other implementations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The method's name on the wire.
    pub method: &'static str,
    /// The generated type of the request: the message's name, with abbreviations in Rust's spelling.
    pub request: &'static str,
    /// The generated type of the answer, spelt likewise.
    pub response: &'static str,
}

/// Writes the markers, the server's trait and the service of one protocol.
///
/// ```text
/// protocol! {
///     /// What the protocol is for.
///     TraitName, ServiceName = "name on the wire", version 1;
///     /// What the method does.
///     Marker: function = "nameOnTheWire"(Request) -> Response;
/// }
/// ```
macro_rules! protocol {
    (
        $(#[$doc:meta])*
        $trait_name:ident, $service:ident = $protocol:literal, version $version:literal;
        $($(#[$method_doc:meta])* $marker:ident: $function:ident = $method:literal($request:ty) -> $response:ty;)+
    ) => {
        /// The protocol's name on the wire: the Java interface that declares it.
        pub const PROTOCOL: &str = $protocol;

        /// The protocol's version.
        pub const VERSION: u64 = $version;

        /// The names of the methods on the wire.
        pub const METHODS: &[&str] = &[$($method),+];

        /// The methods with the names of what they take and answer, in the order of `METHODS`.
        pub const SIGNATURES: &[$crate::protocol::Signature] = &[$(
            $crate::protocol::Signature {
                method: $method,
                request: stringify!($request),
                response: stringify!($response),
            }
        ),+];

        $(
            #[doc = concat!("The method `", $method, "`, for the side that calls it.\n\n")]
            $(#[$method_doc])*
            #[derive(Clone, Copy, Debug)]
            pub enum $marker {}

            impl $crate::rpc::Method for $marker {
                const NAME: &'static str = $method;
                const PROTOCOL: &'static str = PROTOCOL;
                const VERSION: u64 = VERSION;
                type Request = $request;
                type Response = $response;
            }
        )+

        $(#[$doc])*
        pub trait $trait_name: Send + Sync + 'static {
            $(
                $(#[$method_doc])*
                ///
                /// # Errors
                /// What the caller shall see. Unless implemented, the call is refused as not supported.
                fn $function(
                    &self,
                    caller: &$crate::rpc::Caller,
                    request: $request,
                ) -> impl ::std::future::Future<
                    Output = Result<$response, $crate::exception::RemoteException>,
                > + Send {
                    let _ = (caller, request);
                    ::std::future::ready(Err($crate::protocol::not_supported(PROTOCOL, $method)))
                }
            )+
        }

        #[doc = concat!("Hosts a [`", stringify!($trait_name), "`] on a port.")]
        #[derive(Debug)]
        pub struct $service<T>(::std::sync::Arc<T>);

        impl<T: $trait_name> $service<T> {
            /// A service that runs calls on `implementation`, many at a time.
            #[must_use]
            pub const fn new(implementation: ::std::sync::Arc<T>) -> Self {
                Self(implementation)
            }
        }

        impl<T: $trait_name> $crate::rpc::Service for $service<T> {
            fn protocol(&self) -> &'static str {
                PROTOCOL
            }

            fn version(&self) -> u64 {
                VERSION
            }

            fn call<'a>(
                &'a self,
                caller: &'a $crate::rpc::Caller,
                method: &'a str,
                request: ::bytes::Bytes,
            ) -> $crate::rpc::BoxFuture<'a, Result<::bytes::Bytes, $crate::exception::RemoteException>> {
                match method {
                    $($method => Box::pin($crate::protocol::answer(
                        request,
                        move |request| self.0.$function(caller, request),
                    )),)+
                    _ => Box::pin(::std::future::ready(Err(
                        $crate::protocol::no_such_method(PROTOCOL, method),
                    ))),
                }
            }
        }
    };
}

pub mod application_client;
pub mod application_master;
pub mod container_management;
pub mod distributed_scheduling_am;
pub mod resource_tracker;

/// Characters of a peer's method name that go back to it in an error. Real names are shorter.
const METHOD_NAME_SHOWN_MAX: usize = 128;

/// Decodes a request, runs it, and encodes what it answers.
async fn answer<Request, Response, F>(
    request: Bytes,
    run: impl FnOnce(Request) -> F,
) -> Result<Bytes, RemoteException>
where
    Request: Message + Default,
    Response: Message,
    F: Future<Output = Result<Response, RemoteException>>,
{
    let request = Request::decode(request).map_err(|error| {
        RemoteException::new(HadoopException::InvalidProtocolBuffer, error.to_string())
    })?;
    let response = run(request).await?;
    Ok(response.encode_to_vec().into())
}

/// The refusal of a method that the protocol has and the server does not. `YarnException`, because no Java client
/// retries it.
fn not_supported(protocol: &str, method: &str) -> RemoteException {
    RemoteException::new(
        HadoopException::YarnException,
        format!("{method} of {protocol} is not supported by this server"),
    )
}

/// The refusal of a method that the protocol does not have.
fn no_such_method(protocol: &str, method: &str) -> RemoteException {
    let shown: String = method.chars().take(METHOD_NAME_SHOWN_MAX).collect();
    RemoteException::new(
        HadoopException::NoSuchMethod,
        format!("{protocol} has no method {shown}"),
    )
}

#[cfg(test)]
mod tests;
