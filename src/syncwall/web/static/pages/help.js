// Words and documentation: all of it is in the page; links to other pages take the run along.
import "../state.js";
