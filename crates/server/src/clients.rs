//! Clients of a listening socket: each is heard in a thread of its own, so many at a time (decision 0846).
//!
//! When all places are taken and another client comes, the one goes that has had its place longest and is not being answered: who says
//! nothing keeps nobody out.

use parking_lot::{Condvar, Mutex};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// A connection that another thread can end.
pub trait Connection: Send + Sync + 'static {
    /// Whoever reads it meets its end.
    fn hang_up(&self);
}

impl Connection for UnixStream {
    fn hang_up(&self) {
        // The other end may have done it.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Connection for TcpStream {
    fn hang_up(&self) {
        // The other end may have done it.
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// The places there are.
pub struct Clients<C> {
    most: usize,
    /// What the threads are called.
    name: &'static str,
    /// Those that are taken, in the order in which the clients came.
    taken: Mutex<Vec<Place<C>>>,
    left: Condvar,
}

struct Place<C> {
    client: Arc<C>,
    stage: Stage,
}

#[derive(PartialEq, Eq)]
enum Stage {
    /// It has not asked, or has its answer.
    Idle,
    Answered,
    /// Its thread is about to leave.
    HungUp,
}

impl<C: Connection> Clients<C> {
    /// Places for `most` clients at a time, heard by threads called `name`.
    pub fn new(most: usize, name: &'static str) -> Arc<Clients<C>> {
        Arc::new(Clients {
            most,
            name,
            taken: Mutex::new(Vec::new()),
            left: Condvar::new(),
        })
    }

    /// Hears a client, as soon as there is a place for it.
    pub fn hear(self: &Arc<Self>, connection: C, serve: impl FnOnce(&Client<C>) + Send + 'static) {
        let connection = Arc::new(connection);
        let mut taken = self.taken.lock();
        while taken.len() >= self.most {
            if let Some(place) = taken.iter_mut().find(|place| place.stage == Stage::Idle) {
                place.stage = Stage::HungUp;
                place.client.hang_up();
            }
            self.left.wait(&mut taken);
        }
        taken.push(Place {
            client: connection.clone(),
            stage: Stage::Idle,
        });
        drop(taken);
        let client = Client {
            clients: self.clone(),
            connection,
        };
        let heard = thread::Builder::new()
            .name(self.name.into())
            .spawn(move || serve(&client));
        if let Err(error) = heard {
            tracing::warn!(%error, "a client was not heard");
        }
    }
}

impl<C> Clients<C> {
    /// Waits until no place is taken, but not behind `until`.
    pub fn wait_until_empty(&self, until: Instant) {
        let mut taken = self.taken.lock();
        while !taken.is_empty() && !self.left.wait_until(&mut taken, until).timed_out() {}
    }
}

/// A client that has a place as long as this is there.
pub struct Client<C> {
    clients: Arc<Clients<C>>,
    /// Its connection.
    pub connection: Arc<C>,
}

impl<C> Client<C> {
    /// Whether it is being answered, and keeps its place, or may go.
    pub fn is_answered(&self, is_answered: bool) {
        let mut taken = self.clients.taken.lock();
        let own = taken
            .iter_mut()
            .find(|place| Arc::ptr_eq(&place.client, &self.connection));
        if let Some(place) = own.filter(|place| place.stage != Stage::HungUp) {
            place.stage = if is_answered { Stage::Answered } else { Stage::Idle };
        }
    }
}

impl<C> Drop for Client<C> {
    fn drop(&mut self) {
        let mut taken = self.clients.taken.lock();
        taken.retain(|place| !Arc::ptr_eq(&place.client, &self.connection));
        self.clients.left.notify_all();
    }
}

#[cfg(test)]
mod tests;
