//! What a server asks for answers.

use std::future::Future;

use bytes::Bytes;
use hyper::body::Body;
use hyper::{Request, Response};

use crate::outgoing::BodyError;

/// Maker of answers.
pub trait Service: Send + Sync + 'static {
    /// Body of an answer. It is polled only as fast as the peer takes what came before.
    type Body: Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static;

    /// Answers a request, whose body has been read within
    /// [`Limits::body_bytes`](crate::Limits::body_bytes). Its extensions have the peer's
    /// [`PeerKey`](crate::PeerKey).
    fn answer(&self, request: Request<Bytes>) -> impl Future<Output = Response<Self::Body>> + Send;
}
