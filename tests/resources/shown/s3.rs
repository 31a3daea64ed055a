use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, Result};
use object_store::{UpdateVersion, path::Path};

/// Replaces the object; `false`: a higher fence has been there, you are late.
async fn publish(store: &dyn ObjectStore, at: &Path, data: &str, fence: u64) -> Result<bool> {
    loop {
        let mode = match store.get(at).await {
            Err(Error::NotFound { .. }) => PutMode::Create, // If-None-Match: *
            Err(error) => return Err(error),
            Ok(found) => {
                let (e_tag, version) = (found.meta.e_tag.clone(), found.meta.version.clone());
                if fence_of(&found.bytes().await?) > fence {
                    return Ok(false);
                }
                PutMode::Update(UpdateVersion { e_tag, version }) // If-Match: <etag>
            }
        };
        let body = PutPayload::from(format!("{fence}\n{data}"));
        match store.put_opts(at, body, mode.into()).await {
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {} // look again
            done => return done.map(|_| true),
        }
    }
}

/// The first line. What can't be read counts as higher than any: better refused than overwritten.
fn fence_of(object: &[u8]) -> u64 {
    let line = object.split(|byte| *byte == b'\n').next();
    line.and_then(|line| str::from_utf8(line).ok()?.parse().ok())
        .unwrap_or(u64::MAX)
}
