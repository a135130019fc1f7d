//! The port of `/metrics` alone, where nobody is asked who calls
//! (`yarn.nodemanager.agent.metrics.address`).

use std::sync::Arc;

use bytes::Bytes;
use http_server::Service;
use hyper::{Method, Request, StatusCode};

use super::Site;
use super::answer::{Answer, text};
use super::body::Body;
use super::fixed::{last, no_such_page, with_methods, wrong_host};
use crate::source::NodeSource;

/// A site of which `/metrics` and `/health` are served.
pub(super) struct Measuring<S>(pub(super) Arc<Site<S>>);

impl<S: NodeSource> Measuring<S> {
    async fn respond(&self, request: &Request<Bytes>) -> Answer {
        let Self(site) = self;
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let refusal = text(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD.\n");
            return last(with_methods(refusal));
        }
        match request.uri().path() {
            "/health" => site.health().await,
            "/metrics" => match site.hosts.check(request) {
                Ok(()) => site.metrics().await,
                Err(refusal) => wrong_host(refusal),
            },
            _ => no_such_page(),
        }
    }
}

impl<S: NodeSource> Service for Measuring<S> {
    type Body = Body;

    async fn answer(&self, request: Request<Bytes>) -> Answer {
        let mut answer = self.respond(&request).await;
        let filters = &self.0.options.filters;
        filters.complete(request.headers(), answer.headers_mut());
        self.0.count_refusal(&answer);
        answer
    }
}
