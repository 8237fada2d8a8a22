//! Transactions on lists, leases, streams and messages.

use serde_json::{Value, json};

use super::{Sound, name};

impl Sound {
    pub(super) fn transaction(&mut self) {
        let (mut uses, mut reads) = (Vec::new(), Vec::new());
        let (effect, told) = self.fate();
        for document in 0..=self.random.below(3) {
            if self.random.below(2) == 0 {
                uses.push(json!({"read": name(document)}));
                reads.push(self.lists[document].clone());
            } else {
                let value = self.number().to_string();
                uses.push(json!({"append": [name(document), value]}));
                if effect {
                    self.lists[document].push(value);
                }
            }
        }
        let result = if told == Some("ok") {
            json!(reads)
        } else {
            Value::Null
        };
        self.text
            .done(1, "transaction", &json!(uses), told, &result);
    }

    /// A message, a stream and a lease. A handler runs again until its effect is known.
    pub(super) fn effects(&mut self) {
        let id = self.number().to_string();
        let process = 1 + self.random.below(3);
        self.token += 1;
        let lease = json!({"document": "d"});
        self.text.done(
            process,
            "lease-acquire",
            &lease,
            Some("ok"),
            &json!({"token": self.token}),
        );
        let (_, told) = self.fate();
        let write = json!({"document": "d", "token": self.token});
        self.text
            .done(process, "lease-write", &write, told, &Value::Null);
        if self.token > 1 {
            let late = json!({"document": "d", "token": self.token - 1});
            self.text.done(
                process,
                "lease-write",
                &late,
                Some("definite"),
                &Value::Null,
            );
        }
        self.entry += 1;
        loop {
            let (effect, told) = self.fate();
            let message = json!({"receiver": "r", "id": id});
            self.text
                .done(process, "message", &message, told, &Value::Null);
            let entry = json!({"stream": "s", "number": self.entry});
            self.text.done(process, "entry", &entry, told, &Value::Null);
            if effect {
                return;
            }
        }
    }
}
