//! An object store with slow answers, so that another writer may write between a read and the put
//! that follows it.

use std::fmt;
use std::sync::Mutex;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// `InMemory`, with a pause after each `get`, in which every other task gets a turn.
#[derive(Debug, Default)]
pub(crate) struct SlowStore {
    inner: InMemory,
    /// The contents of all puts, in order.
    pub(crate) written: Mutex<Vec<PutPayload>>,
}

impl fmt::Display for SlowStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlowStore({})", self.inner)
    }
}

#[async_trait]
impl ObjectStore for SlowStore {
    async fn put_opts(&self, at: &Path, load: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let put = self.inner.put_opts(at, load.clone(), opts).await?;
        self.written.lock().unwrap().push(load);
        Ok(put)
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        let found = self.inner.get_opts(at, options).await;
        tokio::task::yield_now().await;
        found
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, opts).await
    }

    fn delete_stream(
        &self,
        all: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(all)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
