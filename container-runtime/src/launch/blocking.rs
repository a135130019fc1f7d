//! Work of tasks that may wait for a disk, the kernel or another process.

/// Acts on a thread that may wait. `None`: the runtime is shutting down.
pub(super) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match tokio::task::spawn_blocking(act).await {
        Ok(result) => Some(result),
        Err(error) => {
            tracing::debug!(%error, "blocking work did not run");
            None
        }
    }
}
