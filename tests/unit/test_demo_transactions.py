"""How the demo cuts flights into transactions, and the tally that its producers keep."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from relaybox.local.demo.airline import LARGEST_TRANSACTION, Fate, Tally, Transaction, plan_transactions
from relaybox.local.demo.flights import Row


def flights(count: int) -> list[Row]:
    return [{"flight_id": number, "carrier": "UA" if number % 3 else "AA"} for number in range(count)]


@given(count=st.integers(0, 700), seed=st.integers(0, 2**32))
def test_every_flight_is_in_one_transaction_in_its_order(count: int, seed: int) -> None:
    transactions = list(plan_transactions(flights(count), Random(seed)))
    planned = [row for transaction in transactions for row in (*transaction.flights, *transaction.after_savepoint)]
    assert planned == flights(count)
    assert all(1 <= transaction.flight_count <= LARGEST_TRANSACTION for transaction in transactions)


@given(count=st.integers(0, 700), seed=st.integers(0, 2**32))
def test_the_tally_accounts_for_every_flight(count: int, seed: int) -> None:
    """Committed and rolled back together are all, and the committed ones are those of the transactions."""
    tally = Tally()
    transactions = list(plan_transactions(flights(count), Random(seed)))
    for transaction in transactions:
        tally.enter(transaction)
    assert tally.committed_count + tally.rolled_back == count
    assert tally.committed_count == sum(len(transaction.committed) for transaction in transactions)
    assert tally.transactions.total() == len(transactions)


def test_a_seed_gives_the_same_transactions_again_and_every_fate_occurs() -> None:
    once, again = (list(plan_transactions(flights(20_000), Random(2013))) for _ in range(2))
    assert once == again
    assert {transaction.fate for transaction in once} == set(Fate) - {Fate.LATE}


def test_what_is_committed_depends_on_the_fate() -> None:
    """A rollback loses all flights, a savepoint that is undone those after it, any other end none."""
    before, after = flights(4)[:2], flights(4)[2:]
    committed = {fate: len(Transaction(fate, before, after).committed) for fate in Fate}
    assert committed == {
        Fate.COMMITTED: 4,
        Fate.ROLLED_BACK: 0,
        Fate.SAVEPOINT_RELEASED: 4,
        Fate.SAVEPOINT_UNDONE: 2,
        Fate.LATE: 4,
    }


def test_tallies_add_up() -> None:
    one, other = Tally(), Tally()
    one.enter(Transaction(Fate.COMMITTED, flights(3)))
    other.enter(Transaction(Fate.ROLLED_BACK, flights(5)))
    both = one + other
    assert (both.committed, both.rolled_back) == ({"UA": 2, "AA": 1}, 5)
    assert both.transactions == {Fate.COMMITTED: 1, Fate.ROLLED_BACK: 1}
