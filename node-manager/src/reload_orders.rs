//! Orders of operators to read the configuration again. `wiring::reloading` follows them.

use node_admin::message::{Refusal, RefusalKind, Reload};
use tokio::sync::{mpsc, oneshot};

/// Orders that wait while one is followed; later callers wait for a place.
const ORDERS_MAX: usize = 4;

/// Order of an operator, who is named, and the way back for the answer.
pub(crate) type Order = (String, oneshot::Sender<Result<Reload, Refusal>>);

/// Way for operators to have the configuration read again.
#[derive(Clone, Debug)]
pub(crate) struct ReloadOrders(mpsc::Sender<Order>);

impl ReloadOrders {
    /// Returns the way, and where the orders come out.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Order>) {
        let (sender, orders) = mpsc::channel(ORDERS_MAX);
        (Self(sender), orders)
    }

    /// Has the configuration read again for this operator.
    pub(crate) async fn reload(&self, by: String) -> Result<Reload, Refusal> {
        let (reply, answer) = oneshot::channel();
        let stopping = || refusal(RefusalKind::Unavailable, "the agent is stopping");
        let sent = self.0.send((by, reply)).await;
        sent.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }
}

/// Returns why an order was not followed.
pub(crate) fn refusal(kind: RefusalKind, message: &str) -> Refusal {
    let message = message.to_owned();
    Refusal { kind, message }
}
