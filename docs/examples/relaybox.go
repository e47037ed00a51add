// A producer and a consumer in Go, above database/sql and lib/pq: copy what you need. Run as it is, after go mod init and
// go get github.com/lib/pq:
//
//	go run relaybox.go send TOPIC SENDER TEXT...
//	go run relaybox.go consume SUBSCRIPTION  (or "wait": it does not end)
//
// Both connect with PGHOST, PGPORT, PGDATABASE, PGUSER, PGPASSWORD and PGSSLMODE. Work in the same transaction exists exactly once; elsewhere deduplicate by MessageID.
package main

import (
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/lib/pq"
)

type Message struct {
	StreamPosition                           int64
	Token, MessageID, Topic, Sender, Payload string
}

type Handler func(work *sql.Tx, message Message) error

// Put sends a message in the transaction of the caller, which decides whether it exists.
func Put(work *sql.Tx, topic, sender, payload string) (messageID string, err error) {
	err = work.QueryRow(
		"insert into relaybox.outbox (topic, sender, payload) values ($1, $2, $3) returning message_id", topic, sender, payload,
	).Scan(&messageID)
	return messageID, err
}

// ConsumeUntilEmpty handles each message in one transaction with its acknowledgement, until a fetch gives nothing.
func ConsumeUntilEmpty(store *sql.DB, subscription, worker string, handle Handler) error {
	for {
		messages, err := fetch(store, subscription, worker)
		if err != nil || len(messages) == 0 {
			return err
		}
		for _, message := range messages {
			err := handleOne(store, subscription, message, handle)
			if err == nil {
				continue
			}
			if !isNoFaultOfTheMessage(err) {
				if err := refuse(store, subscription, message, err.Error()); err != nil {
					return err
				}
			}
			break // the rest comes with the next fetch
		}
	}
}

func handleOne(store *sql.DB, subscription string, message Message, handle Handler) error {
	work, err := store.Begin()
	if err != nil {
		return err
	}
	defer work.Rollback() // of no effect after Commit
	if err := handle(work, message); err != nil {
		return err
	}
	// by the token, so in whichever session of the pool
	if _, err := work.Exec("select relaybox.ack($1, $2, $3)", subscription, message.StreamPosition, message.Token); err != nil {
		return err
	}
	return work.Commit()
}

// fetch is a transaction of its own: a message that kills the process is counted, and set aside after crash_limit.
func fetch(store *sql.DB, subscription, worker string) (messages []Message, err error) {
	rows, err := store.Query(
		"select stream_position, token, message_id, topic, sender, coalesce(payload, '') from relaybox.fetch($1, 100, worker => $2)",
		subscription, worker,
	)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var one Message
		if err := rows.Scan(&one.StreamPosition, &one.Token, &one.MessageID, &one.Topic, &one.Sender, &one.Payload); err != nil {
			return nil, err
		}
		messages = append(messages, one)
	}
	return messages, rows.Err()
}

func refuse(store *sql.DB, subscription string, message Message, reason string) error {
	_, err := store.Exec("select relaybox.nack($1, $2, $3, $4)", subscription, message.StreamPosition, reason, message.Token)
	return err
}

// isNoFaultOfTheMessage: RB035: another worker has the messages. 08, 40, 57: the session or the transaction ended.
func isNoFaultOfTheMessage(err error) bool {
	var refusal *pq.Error
	if !errors.As(err, &refusal) {
		return errors.Is(err, sql.ErrConnDone)
	}
	state := string(refusal.Code)
	return state == "RB035" || strings.HasPrefix(state, "08") || strings.HasPrefix(state, "40") || strings.HasPrefix(state, "57")
}

// waitForMessages waits for a notification, at most as long as the store says. The listener is made once for a process.
func waitForMessages(store *sql.DB, listener *pq.Listener, subscription string) error {
	work, err := store.Begin()
	if err != nil {
		return err
	}
	var channel string // another one if the subscription ended and began again on another stream
	err = work.QueryRow("select relaybox.listen($1)", subscription).Scan(&channel)
	work.Rollback() // the listener is to listen, and not this session of the pool
	if err != nil {
		return err
	}
	if err := listener.Listen(channel); err != nil && err != pq.ErrChannelAlreadyOpen {
		return err
	}
	var seconds float64 // asked after it listens: what came meanwhile makes this 1 at most
	if err := store.QueryRow("select relaybox.rest_seconds($1)", subscription).Scan(&seconds); err != nil {
		return err
	}
	select {
	case <-listener.Notify:
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	}
	return nil
}

func main() {
	store, err := sql.Open("postgres", "")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if os.Args[1] == "send" {
		work, err := store.Begin()
		if err != nil {
			log.Fatal(err)
		}
		for _, payload := range os.Args[4:] {
			messageID, err := Put(work, os.Args[2], os.Args[3], payload)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(messageID)
		}
		if err := work.Commit(); err != nil {
			log.Fatal(err)
		}
		return
	}
	handle := func(work *sql.Tx, message Message) error {
		if message.Payload == "refused" {
			return errors.New("no such flight")
		}
		_, err := work.Exec("insert into public.effect (stream_position, payload) values ($1, $2)", message.StreamPosition, message.Payload)
		fmt.Printf("%d: %s\n", message.StreamPosition, message.Payload)
		return err
	}
	listener := pq.NewListener("", time.Second, time.Minute, nil)
	defer listener.Close()
	for {
		if err := ConsumeUntilEmpty(store, os.Args[2], "go-1", handle); err != nil {
			log.Fatal(err)
		}
		if os.Args[1] == "consume" {
			return
		}
		if err := waitForMessages(store, listener, os.Args[2]); err != nil {
			log.Fatal(err)
		}
	}
}
