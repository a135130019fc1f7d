//! Operations on one running container: the part that they share.

use node_core::{Asker, Core};
use node_web::metrics::RpcMethod;
use records::{ContainerId, Now};
use wire::exception::RemoteException;
use wire::proto::hadoop_yarn::ContainerIdProto;
use wire::rpc::Caller;

use super::ContainerManager;
use super::read::{read_asker, stopping, unreadable_id};

impl ContainerManager {
    /// Runs an operation on one container of the caller, and counts it.
    pub(super) async fn operate(
        &self,
        method: RpcMethod,
        caller: &Caller,
        id: Option<ContainerIdProto>,
        operation: impl FnOnce(&mut Core, Asker, ContainerId, Now) -> Result<(), RemoteException>
        + Send
        + 'static,
    ) -> Result<(), RemoteException> {
        self.counted(method, async {
            let asker = read_asker(caller)?;
            let id = ContainerId::try_from(&id.unwrap_or_default()).map_err(unreadable_id)?;
            let work = move |core: &mut Core, now| operation(core, asker, id, now);
            self.handle.run(work).await.map_err(stopping)??;
            self.told().await
        })
        .await
    }
}
