//! An answer's body on its way to hyper: tells the connection's [`Activity`] when the answer ends.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::activity::{Activity, Phase};

/// Error of a body: whatever the service's body fails with.
pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// Longest piece of a body that is passed on at once. hyper asks for more only when its buffer has
/// room, so that an answer lives, and counts as under way, until its peer has taken nearly all of
/// it.
const PIECE_BYTES_MAX: usize = 64 * 1024;

/// Content of an answer.
#[derive(Debug)]
pub(crate) enum Content<B> {
    /// Body made by the service.
    Service(B),
    /// Text of the server's own refusal; empty once sent.
    Refusal(Bytes),
}

/// Body that ends the phase [`Phase::Answering`] when dropped.
#[derive(Debug)]
pub(crate) struct Outgoing<B> {
    content: Content<B>,
    /// Rest of a long frame.
    rest: Bytes,
    activity: Arc<Activity>,
}

impl<B> Outgoing<B> {
    pub(crate) fn new(content: Content<B>, activity: Arc<Activity>) -> Self {
        Self {
            content,
            rest: Bytes::new(),
            activity,
        }
    }
}

impl<B> Drop for Outgoing<B> {
    fn drop(&mut self) {
        self.activity.enter(Phase::Idle);
    }
}

impl<B> Body for Outgoing<B>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.rest.is_empty() {
            let frame = match &mut self.content {
                Content::Service(body) => ready!(Pin::new(body).poll_frame(cx)),
                Content::Refusal(text) if text.is_empty() => None,
                Content::Refusal(text) => Some(Ok(Frame::data(std::mem::take(text)))),
            };
            match frame.transpose().map_err(Into::into)?.map(Frame::into_data) {
                Some(Ok(data)) if data.len() > PIECE_BYTES_MAX => self.rest = data,
                Some(Ok(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Some(Err(trailers)) => return Poll::Ready(Some(Ok(trailers))),
                None => return Poll::Ready(None),
            }
        }
        let length = self.rest.len().min(PIECE_BYTES_MAX);
        let piece = self.rest.split_to(length);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
            && match &self.content {
                Content::Service(body) => body.is_end_stream(),
                Content::Refusal(text) => text.is_empty(),
            }
    }

    /// Returns the length of the body; hyper asks before the first frame, when there is no rest.
    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Service(body) => body.size_hint(),
            Content::Refusal(text) => SizeHint::with_exact(text.len() as u64),
        }
    }
}
