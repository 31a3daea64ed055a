//! A private `redis-server` for an example that was given no `DLOCK_URL`.

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dlock_runtime::LockPool;

/// The server ends with its owner.
pub(crate) struct Server(Child);

impl Server {
    /// Starts a server, and says so; returns its address and the handle that keeps it alive.
    /// `alone`: it does not get the terminal's Ctrl-C, for an owner that handles Ctrl-C itself.
    pub(crate) async fn start(alone: bool) -> Result<(String, Self), Box<dyn Error + Send + Sync>> {
        let (url, server) = Self::start_silently(alone).await?;
        println!("DLOCK_URL is not set: using a private redis-server at {url}\n");
        Ok((url, server))
    }

    pub(crate) async fn start_silently(
        alone: bool,
    ) -> Result<(String, Self), Box<dyn Error + Send + Sync>> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port();
        let mut command = Command::new("redis-server");
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .current_dir(std::env::temp_dir())
            .stdout(Stdio::null());
        #[cfg(unix)]
        if alone {
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        #[cfg(not(unix))]
        let _ = alone;
        let child = command.spawn().map_err(|why| {
            format!("no redis-server on PATH ({why}): install it, or set DLOCK_URL")
        })?;
        let (url, server) = (format!("redis://127.0.0.1:{port}"), Server(child));
        for _ in 0..100 {
            if LockPool::connect(url.as_str()).await.is_ok() {
                return Ok((url, server));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("redis-server did not answer within 5 s".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended already
        let _ = self.0.wait();
    }
}
