//! `dlock migrate`: the tables of a PostgreSQL database.

use crate::output;
use crate::server;
use crate::status::Failure;

pub(crate) async fn migrate(print: bool, url: Option<&str>) -> Result<u8, Failure> {
    let config = server::config(url)?;
    if print {
        output::print(&config.migration()?)?;
        return Ok(0);
    }
    config.migrate().await?;
    output::print("the tables are there, in the layout of this version\n")?;
    Ok(0)
}
