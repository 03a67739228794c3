"""Named columns of tables of transitions: `Column` is one, `Columns` are those that an agent observes and chooses."""

from forage.core.columns.column import KINDS as KINDS
from forage.core.columns.column import MISSING as MISSING
from forage.core.columns.column import MOST as MOST
from forage.core.columns.column import NAMELESS as NAMELESS
from forage.core.columns.column import NO as NO
from forage.core.columns.column import YES as YES
from forage.core.columns.column import Column as Column
from forage.core.columns.column import date_numbers as date_numbers
from forage.core.columns.column import read_date as read_date
from forage.core.columns.record import Columns as Columns
